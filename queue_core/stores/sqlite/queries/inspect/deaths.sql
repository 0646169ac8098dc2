-- Deaths by error and queue in each minute from one on.
SELECT minute, signature, queue_id, n FROM signature_minutes WHERE minute >= ?
