-- What happened in each of some minutes.
SELECT minute, outcome, n
  FROM minutes
 WHERE minute BETWEEN :first AND :last
   AND (:queue IS NULL OR queue_id = (SELECT number FROM queues WHERE name = :queue))
