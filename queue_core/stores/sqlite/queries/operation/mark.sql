-- Note that an operation has changed a member.
UPDATE operation_members SET changed = 1 WHERE operation = ? AND place = ?
