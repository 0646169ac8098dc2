-- Bound the statement behind this in the same message, which is one transaction. The times are milliseconds. So a pooler's session
-- is bounded that has no options of ours.
SET LOCAL lock_timeout = %(patience)d;
SET LOCAL statement_timeout = %(statement)d;
