-- Mark the file as one of this program: "JOBS" as a number.
PRAGMA application_id = 1246708307
