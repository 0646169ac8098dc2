-- Make a database as a copy of another one; copying files needs no write-ahead log and is the quicker way here.
create database {name} template {template} strategy file_copy
