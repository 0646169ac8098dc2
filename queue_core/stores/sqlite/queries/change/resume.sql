-- Resume a queue, and let other processes see that there may be something to claim.
UPDATE queues SET paused_at = NULL, arrived = arrived + :backlog WHERE number = :number AND paused_at IS NOT NULL
