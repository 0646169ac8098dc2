-- The jobs that wait for their turn, by their arrival.
SELECT number, id, priority, seq, aged
  FROM jobs INDEXED BY jobs_gate
 WHERE queue_id = ? AND ordering_key = ? AND holds = 0
 ORDER BY seq
 LIMIT ?
