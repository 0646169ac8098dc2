-- Forget members of an operation, the first ones first.
DELETE FROM operation_members
 WHERE operation = ?1 AND place IN (SELECT place FROM operation_members WHERE operation = ?1 ORDER BY place LIMIT ?2)
