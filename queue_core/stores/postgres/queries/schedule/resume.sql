-- Let a paused schedule tick again, next at this time.
UPDATE schedules SET paused_at = NULL, next_tick = to_timestamp(%(next_tick)s)
 WHERE name = %(name)s AND paused_at IS NOT NULL
RETURNING name
