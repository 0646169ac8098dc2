-- Remove a database and end all connections to it.
drop database if exists {name} with (force)
