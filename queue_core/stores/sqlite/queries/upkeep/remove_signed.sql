-- Forget which error signatures an operation is all of.
DELETE FROM operation_signatures WHERE operation = ?
