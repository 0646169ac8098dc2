-- Refuse writes on this connection.
PRAGMA query_only = ON
