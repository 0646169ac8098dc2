-- Every connection's settings: memory in KiB for pages and in pages for the log between two checkpoints, its size in bytes.
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -32768;
PRAGMA wal_autocheckpoint = 2000;
PRAGMA journal_size_limit = 67108864;
PRAGMA trusted_schema = OFF;
