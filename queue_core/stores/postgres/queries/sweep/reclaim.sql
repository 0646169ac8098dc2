-- Take jobs back whose lease expired: queued again with one crash more, buried as poison at the third, or cancelled where
-- somebody asked for it.
WITH expired AS MATERIALIZED (
    SELECT id, token FROM leases WHERE expires_at < now() LIMIT %(limit)s
), locked AS MATERIALIZED (
    SELECT j.id FROM jobs j JOIN expired e ON e.id = j.id ORDER BY j.id FOR UPDATE OF j SKIP LOCKED
), freed AS (
    DELETE FROM leases l USING locked k, expired e
     WHERE l.id = k.id AND e.id = k.id AND l.token = e.token AND l.expires_at < now()
    RETURNING l.id, l.token, l.worker, l.started_at, l.progress, l.message, l.cancel, l.begun
), back AS (
    UPDATE jobs j
       SET last_token = f.token, crashes = j.crashes + f.begun::int, updated_at = now(),
           error = CASE WHEN f.begun THEN %(exception)s || ': ' || %(crash_said)s || ' (last: ' || f.worker || ')' ELSE j.error END
      FROM freed f
     WHERE j.id = f.id AND (j.crashes + 1 < %(poison)s OR NOT f.begun) AND NOT f.cancel
    RETURNING j.id, j.queue_id, j.type, j.rank, j.crashes, j.retry_count, f.token, f.worker, f.started_at, f.begun
), stopped AS (
    -- Somebody asked to cancel it while it ran.
    DELETE FROM jobs j USING freed f
     WHERE j.id = f.id AND (j.crashes + 1 < %(poison)s OR NOT f.begun) AND f.cancel
    RETURNING j.*, f.token, f.worker, f.started_at, f.begun
), kept AS (
    INSERT INTO job_history (id, queue_id, seq, priority, status, run_at, type, payload, tags, retry_count, crashes,
                             max_retries, last_token, error, worker, created_at, started_at)
    SELECT id, queue_id, seq, priority, 'cancelled', run_at, type, payload, tags, retry_count, crashes + begun::int, max_retries,
           token, CASE WHEN begun THEN %(exception)s || ': ' || %(crash_said)s || ' (last: ' || worker || ')' ELSE error END, worker,
           created_at, started_at
      FROM stopped
), gone AS (
    DELETE FROM jobs j USING freed f
     WHERE j.id = f.id AND j.crashes + 1 >= %(poison)s AND f.begun
    RETURNING j.*, f.token, f.worker, f.started_at, f.progress, f.message
), buried AS (
    INSERT INTO jobs_dead (id, queue_id, seq, priority, run_at, type, payload, tags, retry_count, crashes, max_retries,
                           last_token, error, signature, kind, progress, message, worker, created_at, started_at)
    SELECT id, queue_id, seq, priority, run_at, type, payload, tags, retry_count, crashes + 1, max_retries,
           token, %(exception)s || ': ' || %(poison_said)s || ' (last: ' || worker || ')', %(poison_signature)s, 'poison', progress, message, worker,
           created_at, started_at
      FROM gone
), named AS (
    INSERT INTO error_signatures (signature, title, exception)
    SELECT %(poison_signature)s, %(poison_title)s, %(exception)s FROM gone LIMIT 1
        ON CONFLICT (signature) DO NOTHING
), noted AS (
    INSERT INTO job_attempts (job_id, token, number, kind, exception, message, traceback, signature, outcome, worker, started_at)
    SELECT id, token, retry_count + crashes, 'crashed', %(exception)s, %(crash_said)s || ' (last: ' || worker || ')', '',
           %(crash_signature)s, 'crashed', worker, started_at
      FROM back WHERE begun
    UNION ALL
    SELECT id, token, retry_count + crashes + 1, 'crashed', %(exception)s, %(crash_said)s || ' (last: ' || worker || ')', '',
           %(crash_signature)s, 'crashed', worker, started_at
      FROM stopped WHERE begun
    UNION ALL
    SELECT id, token, retry_count + crashes + 1, 'poison', %(exception)s, %(poison_said)s || ' (last: ' || worker || ')', '',
           %(poison_signature)s, 'poison', worker, started_at
      FROM gone
), counted AS (
    INSERT INTO tally_deltas (queue_id, type, outcome, signature, n)
    SELECT queue_id, type, CASE WHEN begun THEN 'crashed' ELSE 'released' END, '', count(*) FROM back GROUP BY 1, 2, 3
    UNION ALL
    SELECT queue_id, type, 'crashed', '', count(*) FROM gone GROUP BY 1, 2
    UNION ALL
    SELECT queue_id, type, 'dead', %(poison_signature)s, count(*) FROM gone GROUP BY 1, 2
    UNION ALL
    SELECT queue_id, type, o.outcome, '', count(*) FROM stopped CROSS JOIN (VALUES ('crashed'), ('cancelled')) AS o (outcome)
     WHERE begun OR o.outcome = 'cancelled' GROUP BY 1, 2, 3
)
SELECT b.id::text, q.name, b.type, b.token, b.worker, b.crashes, b.rank, false, b.begun FROM back b JOIN queues q ON q.id = b.queue_id
UNION ALL
SELECT g.id::text, q.name, g.type, g.token, g.worker, g.crashes + 1, NULL, false, true FROM gone g JOIN queues q ON q.id = g.queue_id
UNION ALL
SELECT s.id::text, q.name, s.type, s.token, s.worker, s.crashes + s.begun::int, NULL, true, s.begun FROM stopped s JOIN queues q ON q.id = s.queue_id
