-- Remove a database with whoever is connected to it.
drop database if exists {name} with (force)
