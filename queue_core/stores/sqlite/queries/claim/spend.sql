-- Note what is left of a rate's tokens.
UPDATE queues SET tokens = ?, refilled_at = ? WHERE number = ?
