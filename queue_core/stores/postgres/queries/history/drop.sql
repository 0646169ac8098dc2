-- Drop a day that is detached and empty.
DROP TABLE IF EXISTS {day}
