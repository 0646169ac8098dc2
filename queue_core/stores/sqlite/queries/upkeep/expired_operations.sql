-- The operations that ended before a time, the first ones first.
SELECT number FROM operations INDEXED BY operations_finished WHERE finished_at < ? ORDER BY finished_at LIMIT ?
