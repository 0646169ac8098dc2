-- Note that an operation has changed all its members.
UPDATE operation_members SET changed = 1 WHERE operation = ?
