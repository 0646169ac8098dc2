-- What an error is called, and when it was first seen.
SELECT title, first_seen FROM error_signatures WHERE signature = ?
