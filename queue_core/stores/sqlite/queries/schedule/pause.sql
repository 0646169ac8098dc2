-- Pause a schedule that is not.
UPDATE schedules SET paused_at = :now WHERE name = :name AND paused_at IS NULL
