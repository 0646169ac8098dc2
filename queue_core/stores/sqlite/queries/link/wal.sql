-- Keep a write-ahead log, with which readers and one writer do not wait for each other; answers with what is kept.
PRAGMA journal_mode = WAL
