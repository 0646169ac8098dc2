-- Let a paused schedule tick again, next at this time.
UPDATE schedules SET paused_at = NULL, next_tick = :next_tick WHERE name = :name AND paused_at IS NOT NULL
