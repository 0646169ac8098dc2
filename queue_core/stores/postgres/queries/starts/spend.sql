-- Write down the tokens that a claim has left.
UPDATE queue_starts SET tokens = %(tokens)s, refilled_at = to_timestamp(%(at)s) WHERE queue_id = %(queue_id)s
