-- Let the next jobs of ordering keys through, by their arrival, as many as may be under way; gates that nobody needs go. The
-- gates were locked by a statement before this one, so that who holds a key and who waits for it is seen whole. Up to `passed` in the
-- order of arrival a key has nobody, unless somebody may have come back there: then all of it is looked at (`whole`).
WITH named AS MATERIALIZED (
    SELECT g.*, coalesce((SELECT o.passed FROM order_gates o WHERE o.queue_id = g.queue_id AND o.key = g.key AND NOT %(whole)s), 0) AS passed
      FROM unnest(%(queue_id)s::int[], %(key)s::text[], %(most)s::int[]) WITH ORDINALITY AS g (queue_id, key, most, place)
), gate AS MATERIALIZED (
    SELECT g.*, g.most
           - (SELECT count(*) FROM (SELECT FROM jobs j
                                     WHERE j.queue_id = g.queue_id AND j.ordering_key = g.key AND j.holds
                                       AND j.status = ANY ('{queued,retrying,scheduled}'::job_status[]) AND j.seq > g.passed
                                     LIMIT g.most) AS h)
           - (SELECT count(*) FROM (SELECT FROM jobs_dead d
                                     WHERE d.queue_id = g.queue_id AND d.ordering_key = g.key AND d.holds LIMIT g.most) AS h) AS room
      FROM named g
), turn AS MATERIALIZED (
    SELECT t.id, g.place
      FROM gate g
     CROSS JOIN LATERAL (SELECT j.id FROM jobs j
                          WHERE j.queue_id = g.queue_id AND j.ordering_key = g.key AND NOT j.holds AND j.status = 'queued'
                            AND j.seq > g.passed
                          ORDER BY j.seq
                          LIMIT greatest(0, g.room)
                            FOR NO KEY UPDATE) t
), opened AS (
    UPDATE jobs SET holds = true, rank = coalesce(place, (127 - priority)::bigint << 45 | seq)
     WHERE id = ANY (ARRAY(SELECT id FROM turn))
    RETURNING id, queue_id, ordering_key, rank
), idle AS (
    DELETE FROM order_gates
     WHERE ctid = ANY (ARRAY(SELECT o.ctid
                               FROM gate g
                              CROSS JOIN LATERAL (SELECT ctid, passed FROM order_gates o
                                                   WHERE o.queue_id = g.queue_id AND o.key = g.key OFFSET 0) o
                              WHERE o.passed = 0 AND g.room = g.most AND (g.place IN (SELECT place FROM turn)) IS NOT TRUE))
), lowered AS (
    UPDATE order_gates SET passed = 0
     WHERE ctid = ANY (ARRAY(SELECT o.ctid
                               FROM gate g
                              CROSS JOIN LATERAL (SELECT ctid, passed FROM order_gates o
                                                   WHERE o.queue_id = g.queue_id AND o.key = g.key OFFSET 0) o
                              WHERE %(whole)s AND o.passed > 0))
)
SELECT queue_id, ordering_key, id::text, rank FROM opened ORDER BY rank
