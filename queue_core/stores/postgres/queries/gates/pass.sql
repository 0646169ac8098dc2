-- Note up to which place in the order of arrival keys have nobody who holds them or waits for them, so that the next look leaves out
-- what ended before. Their gates are locked: who comes to wait from now on arrives behind it, or opens the gate as a whole.
UPDATE order_gates o
   SET passed = coalesce(
       (SELECT min(f.seq)
          FROM (VALUES (true, 'queued'::job_status), (true, 'retrying'), (true, 'scheduled'), (false, 'queued')) AS v (holds, status)
         CROSS JOIN LATERAL (SELECT j.seq FROM jobs j
                              WHERE j.queue_id = o.queue_id AND j.ordering_key = o.key AND j.holds = v.holds AND j.status = v.status
                                AND j.seq > o.passed
                              ORDER BY j.seq LIMIT 1) f) - 1,
       (SELECT last_value FROM job_seq))
 WHERE ctid = ANY (ARRAY(SELECT g.ctid
                           FROM unnest(%(queue_id)s::int[], %(key)s::text[]) AS i (queue_id, key)
                          CROSS JOIN LATERAL (SELECT ctid FROM order_gates g
                                               WHERE g.queue_id = i.queue_id AND g.key = i.key OFFSET 0) g))
