-- Wait only a moment for tables: whatever asks for them meanwhile queues behind this transaction.
SELECT set_config('lock_timeout', '3s', true)
