-- From now on a loss of power may take back the last commits; a crash of a process still takes none.
PRAGMA synchronous = NORMAL
