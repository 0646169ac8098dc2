-- Let the server end this transaction by itself when its client falls silent: it keeps what others wait for no longer than that.
-- The times are milliseconds. Nothing of it stays behind in the session, which may be a pooler's.
SET LOCAL idle_in_transaction_session_timeout = %(silent)d;
SET LOCAL lock_timeout = %(patience)d;
SET LOCAL statement_timeout = %(statement)d;
SET LOCAL tcp_user_timeout = %(unread)d
