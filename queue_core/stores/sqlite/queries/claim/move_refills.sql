-- Move the refills of rates along with a clock that was set.
UPDATE queues SET refilled_at = refilled_at + :seconds WHERE tokens IS NOT NULL
