-- From now on a commit returns when it is on the disk.
PRAGMA synchronous = FULL
