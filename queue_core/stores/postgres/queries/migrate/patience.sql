-- Wait a minute for another process that migrates.
SELECT set_config('lock_timeout', '60s', true)
