-- A number that changes when another connection has committed something.
PRAGMA data_version
