"""PostgreSQL, the durable source of truth."""
