-- Pause a queue.
UPDATE queues SET paused_at = :now WHERE number = :number AND paused_at IS NULL
