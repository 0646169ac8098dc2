-- Let the statements of this transaction see one moment, and nothing else.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY
