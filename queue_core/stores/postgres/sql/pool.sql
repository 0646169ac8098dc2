-- name: snapshot
-- Begin a transaction whose statements see one moment, and nothing else; behind it come the bounds.
BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY
