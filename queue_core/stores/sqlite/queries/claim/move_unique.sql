-- Move the ends of unique keys along with a clock that was set.
UPDATE unique_keys SET until = until + :seconds WHERE until IS NOT NULL
