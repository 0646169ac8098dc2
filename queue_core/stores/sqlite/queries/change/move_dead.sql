-- Give a dead job to another queue or priority.
UPDATE jobs SET queue_id = ?1, priority = ?2, ordering_key = ?3, holds = NULL WHERE number = ?4
