-- Take jobs back whose lease expired: queued again with one crash more, buried as poison at the third, or cancelled where
-- somebody asked for it. One that had not begun is not blamed. Each row is looked up by its id, whatever the statistics say;
-- those that go back are written anew.
WITH expired AS MATERIALIZED (
    SELECT id, token, worker, started_at, progress, message, cancel, begun FROM leases WHERE expires_at < now() LIMIT %(limit)s
), locked AS MATERIALIZED (
    SELECT j.*, e.token, e.worker, e.started_at, e.progress, e.message, e.cancel, e.begun
      FROM expired e
     CROSS JOIN LATERAL (SELECT * FROM jobs j WHERE j.id = e.id AND j.last_token < e.token FOR UPDATE SKIP LOCKED) j
), freed AS (
    -- A heartbeat may have renewed it meanwhile.
    DELETE FROM leases WHERE id = ANY (ARRAY(SELECT id FROM locked)) AND expires_at < now() RETURNING id
), ended AS MATERIALIZED (
    SELECT *, CASE WHEN begun AND crashes + 1 >= %(poison)s THEN 'poison' WHEN cancel THEN 'cancelled' ELSE 'back' END AS fate
      FROM locked
     WHERE (id IN (SELECT id FROM freed)) IS TRUE
), deleted AS (
    DELETE FROM jobs WHERE id = ANY (ARRAY(SELECT id FROM ended)) RETURNING id
), back AS MATERIALIZED (
    SELECT id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, retry_count, crashes + begun::int AS crashes,
           max_retries, created_at, token, worker, started_at, begun,
           CASE WHEN begun THEN %(exception)s || ': ' || %(crash_said)s || ' (last: ' || worker || ')' ELSE error END AS error
      FROM ended
     WHERE fate = 'back' AND (id IN (SELECT id FROM deleted)) IS TRUE
), written AS (
    INSERT INTO jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, retry_count, crashes,
                      max_retries, last_token, error, created_at)
    SELECT id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, retry_count, crashes, max_retries, token,
           error, created_at
      FROM back
), stopped AS (
    SELECT * FROM ended WHERE fate = 'cancelled'
), gone AS (
    SELECT * FROM ended WHERE fate = 'poison'
), kept AS (
    INSERT INTO job_history (id, queue_id, seq, priority, status, run_at, type, payload, tags, retry_count, crashes,
                             max_retries, last_token, error, worker, created_at, started_at)
    SELECT id, queue_id, seq, priority, 'cancelled', run_at, type, payload, tags, retry_count, crashes + begun::int, max_retries,
           token, CASE WHEN begun THEN %(exception)s || ': ' || %(crash_said)s || ' (last: ' || worker || ')' ELSE error END, worker,
           created_at, started_at
      FROM stopped
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
