-- Move the ends of leases along with a clock that was set.
UPDATE jobs SET expires_at = expires_at + :seconds WHERE place = 'running'
