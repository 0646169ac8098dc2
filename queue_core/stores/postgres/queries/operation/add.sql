-- Append members to a locked operation that is preparing, each with the token and the queue that its job has now, wherever it is:
-- among the unfinished, the dead, or in the history, there the newest. Each is looked up by its id, in the next place only
-- where it was not in the one before. A text that can be no id comes with a null; what is a member already is left out: it is
-- looked up by its job, for statistics know nothing of a new operation and take all of its members for one row.
WITH input AS MATERIALIZED (
    SELECT i.text, i.id, i.position
      FROM unnest(%(texts)s::text[], %(ids)s::uuid[]) WITH ORDINALITY AS i (text, id, position)
     WHERE (SELECT true FROM (SELECT operation FROM operation_members m WHERE m.job_id = i.text OFFSET 0) m
             WHERE m.operation = %(number)s) IS NULL
), unfinished AS MATERIALIZED (
    SELECT i.*, j.queue_id, j.token
      FROM input i
      LEFT JOIN LATERAL (SELECT queue_id, coalesce((SELECT l.token FROM leases l WHERE l.id = j.id), last_token) AS token
                           FROM jobs j WHERE j.id = i.id OFFSET 0) j ON true
), dead AS MATERIALIZED (
    SELECT u.text, u.id, u.position, coalesce(u.queue_id, d.queue_id) AS queue_id, coalesce(u.token, d.last_token) AS token
      FROM unfinished u
      LEFT JOIN LATERAL (SELECT queue_id, last_token FROM jobs_dead d
                          WHERE d.id = u.id AND u.token IS NULL OFFSET 0) d ON true
), finished AS MATERIALIZED (
    SELECT d.text, d.position, coalesce(d.queue_id, h.queue_id) AS queue_id, coalesce(d.token, h.last_token) AS token
      FROM dead d
      -- Found by their ids and then sorted, for another index has this order.
      LEFT JOIN LATERAL (SELECT queue_id, last_token
                           FROM (SELECT * FROM job_history h WHERE h.id = d.id AND d.token IS NULL OFFSET 0) h
                          ORDER BY finished_at DESC LIMIT 1) h ON true
), written AS (
    INSERT INTO operation_members (operation, place, job_id, token, queue)
    SELECT o.number, o.total + row_number() OVER (ORDER BY f.position), f.text, f.token,
           coalesce((SELECT name FROM queues q WHERE q.id = f.queue_id), '')
      FROM operations o CROSS JOIN finished f
     WHERE o.number = %(number)s AND o.state = 'preparing'
    RETURNING 1
)
UPDATE operations SET total = total + (SELECT count(*) FROM written), updated_at = clock_timestamp()
 WHERE number = %(number)s AND state = 'preparing'
