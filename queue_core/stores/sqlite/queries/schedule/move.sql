-- Move a schedule's next tick on, unless somebody else was sooner, or it is paused.
UPDATE schedules SET next_tick = :following WHERE name = :name AND next_tick = :due AND paused_at IS NULL
