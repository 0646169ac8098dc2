-- How many jobs match, counting no further than a limit.
SELECT count(*) FROM ({places}) AS found
