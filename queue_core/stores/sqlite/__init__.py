"""Jobs in one SQLite file that several processes of one machine share."""
