-- Give a waiting job to another queue or priority, with the order of one that arrives there now.
UPDATE jobs SET queue_id = ?1, priority = ?2, ordering_key = ?3, seq = ?4, aged = ?5, rank = ?6, holds = ?7 WHERE number = ?8
