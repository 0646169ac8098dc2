-- name: begin
-- Begin a transaction whose statements each see what was committed before them; behind it come the bounds.
BEGIN ISOLATION LEVEL READ COMMITTED

-- name: commit
-- End a transaction.
COMMIT

-- name: rollback
-- Undo a transaction.
ROLLBACK

-- name: bounds
-- Let the server end this transaction by itself when its client falls silent: it keeps what others wait for no longer than that.
-- The times are milliseconds. Nothing of it stays behind in the session, which may be a pooler's.
SET LOCAL idle_in_transaction_session_timeout = %(silent)d;
SET LOCAL lock_timeout = %(patience)d;
SET LOCAL statement_timeout = %(statement)d;
SET LOCAL tcp_user_timeout = %(unread)d

-- name: limits
-- Bound the statement behind this in the same message, which is one transaction. The times are milliseconds. So a pooler's session
-- is bounded that has no options of ours, and its statements see what was committed before each of them.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET LOCAL lock_timeout = %(patience)d;
SET LOCAL statement_timeout = %(statement)d;
