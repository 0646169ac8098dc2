-- Take jobs back whose lease expired: queued again with one loss more, buried as lost at their bound, or cancelled where
-- somebody asked for it. One that had not begun is not blamed. Each row is looked up by its id, whatever the statistics say;
-- those that go back are written anew. A job that lets go of an ordering key is only named, as one without a token, unless its
-- gate is locked.
WITH expired AS MATERIALIZED (
    SELECT id, token, worker, started_at, progress, message, cancel, begun FROM leases
     WHERE expires_at < now() AND ctid BETWEEN %(first_place)s::tid AND %(last_place)s::tid
    UNION ALL
    SELECT id, token, worker, started_at, progress, message, cancel, begun FROM leases
     WHERE expires_at < now() AND id = ANY (%(ids)s::uuid[])
     LIMIT %(limit)s
), locked AS MATERIALIZED (
    SELECT j.*, e.token, e.worker, e.started_at, e.progress, e.message, e.cancel, e.begun,
           CASE WHEN e.begun AND j.losses + 1 >= %(bound)s THEN 'lost' WHEN e.cancel THEN 'cancelled' ELSE 'back' END AS fate
      FROM expired e
     CROSS JOIN LATERAL (SELECT * FROM jobs j WHERE j.id = e.id AND j.last_token < e.token FOR UPDATE SKIP LOCKED) j
), free AS MATERIALIZED (
    SELECT * FROM locked
     WHERE ordering_key IS NULL OR fate = 'back' OR queue_id || ' ' || ordering_key = ANY (%(gates)s::text[])
), freed AS (
    -- A heartbeat may have renewed it meanwhile.
    DELETE FROM leases WHERE id = ANY (ARRAY(SELECT id FROM free)) AND expires_at < now() RETURNING id
), ended AS MATERIALIZED (
    SELECT * FROM free
     WHERE (id IN (SELECT id FROM freed)) IS TRUE
), deleted AS (
    DELETE FROM jobs WHERE id = ANY (ARRAY(SELECT id FROM ended)) RETURNING id
), back AS MATERIALIZED (
    SELECT id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, retry_count, crashes, losses + begun::int AS losses,
           max_retries, created_at, token, worker, started_at, begun, ordering_key, holds, unique_key, unique_seconds, place,
           CASE WHEN begun THEN %(exception)s || ': ' || %(loss_said)s || ' (last: ' || worker || ')' ELSE error END AS error
      FROM ended
     WHERE fate = 'back' AND (id IN (SELECT id FROM deleted)) IS TRUE
), written AS (
    INSERT INTO jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, retry_count, crashes, losses,
                      max_retries, last_token, error, created_at, ordering_key, holds, unique_key, unique_seconds, place)
    SELECT id, queue_id, rank, seq, priority, status, run_at, type, payload, tags, retry_count, crashes, losses, max_retries,
           token, error, created_at, ordering_key, holds, unique_key, unique_seconds, place
      FROM back
), returned AS (
    INSERT INTO queue_returns (queue_id, band, n)
    SELECT r.queue_id, b.band, count(*)
      FROM back r CROSS JOIN LATERAL (VALUES (''), (priority_band(r.priority))) AS b (band)
     WHERE r.queue_id = ANY (ARRAY(SELECT id FROM queues WHERE name = ANY (%(limited)s::text[])))
     GROUP BY 1, 2
), stopped AS (
    SELECT * FROM ended WHERE fate = 'cancelled'
), gone AS (
    SELECT * FROM ended WHERE fate = 'lost'
), kept AS (
    INSERT INTO job_history (id, queue_id, seq, priority, status, run_at, type, payload, tags, retry_count, crashes, losses,
                             max_retries, last_token, error, worker, created_at, started_at, ordering_key, unique_key,
                             unique_seconds)
    SELECT id, queue_id, seq, priority, 'cancelled', run_at, type, payload, tags, retry_count, crashes, losses + begun::int, max_retries,
           token, CASE WHEN begun THEN %(exception)s || ': ' || %(loss_said)s || ' (last: ' || worker || ')' ELSE error END, worker,
           created_at, started_at, ordering_key, unique_key, unique_seconds
      FROM stopped
), buried AS (
    INSERT INTO jobs_dead (id, queue_id, seq, priority, run_at, type, payload, tags, retry_count, crashes, losses, max_retries,
                           last_token, error, signature, kind, progress, message, worker, created_at, started_at,
                           ordering_key, holds, unique_key, unique_seconds)
    SELECT id, queue_id, seq, priority, run_at, type, payload, tags, retry_count, crashes, losses + 1, max_retries,
           token, %(exception)s || ': ' || %(lost_said)s || ' (last: ' || worker || ')', %(lost_signature)s, 'lost', progress, message, worker,
           created_at, started_at, ordering_key,
           holds AND queue_id = ANY (ARRAY(SELECT id FROM queues WHERE name = ANY (%(blocking)s::text[]))), unique_key, unique_seconds
      FROM gone
), named AS (
    INSERT INTO error_signatures (signature, title, exception)
    SELECT %(lost_signature)s, %(lost_title)s, %(exception)s FROM gone LIMIT 1
        ON CONFLICT (signature) DO NOTHING
), noted AS (
    INSERT INTO job_attempts (job_id, token, number, kind, exception, message, traceback, signature, outcome, worker, started_at)
    SELECT id, token, retry_count + crashes + losses, 'lost', %(exception)s, %(loss_said)s || ' (last: ' || worker || ')', '',
           %(loss_signature)s, 'crashed', worker, started_at
      FROM back WHERE begun
    UNION ALL
    SELECT id, token, retry_count + crashes + losses + 1, 'lost', %(exception)s, %(loss_said)s || ' (last: ' || worker || ')', '',
           %(loss_signature)s, 'crashed', worker, started_at
      FROM stopped WHERE begun
    UNION ALL
    SELECT id, token, retry_count + crashes + losses + 1, 'lost', %(exception)s, %(lost_said)s || ' (last: ' || worker || ')', '',
           %(lost_signature)s, 'crashed', worker, started_at
      FROM gone
), counted AS (
    INSERT INTO tally_deltas (queue_id, type, outcome, signature, n)
    SELECT queue_id, type, CASE WHEN begun THEN 'crashed' ELSE 'released' END, '', count(*) FROM back GROUP BY 1, 2, 3
    UNION ALL
    SELECT queue_id, type, 'crashed', '', count(*) FROM gone GROUP BY 1, 2
    UNION ALL
    SELECT queue_id, type, 'dead', %(lost_signature)s, count(*) FROM gone GROUP BY 1, 2
    UNION ALL
    SELECT queue_id, type, o.outcome, '', count(*) FROM stopped CROSS JOIN (VALUES ('crashed'), ('cancelled')) AS o (outcome)
     WHERE begun OR o.outcome = 'cancelled' GROUP BY 1, 2, 3
)
SELECT b.id::text, q.name, b.type, b.token, b.worker, b.losses, b.rank, false, b.begun, b.ordering_key FROM back b JOIN queues q ON q.id = b.queue_id
UNION ALL
SELECT g.id::text, q.name, g.type, g.token, g.worker, g.losses + 1, NULL, false, true, g.ordering_key FROM gone g JOIN queues q ON q.id = g.queue_id
UNION ALL
SELECT s.id::text, q.name, s.type, s.token, s.worker, s.losses + s.begun::int, NULL, true, s.begun, s.ordering_key FROM stopped s JOIN queues q ON q.id = s.queue_id
UNION ALL
SELECT l.id::text, q.name, l.type, NULL, l.worker, l.losses, NULL, false, l.begun, l.ordering_key FROM locked l JOIN queues q ON q.id = l.queue_id
 WHERE (l.id IN (SELECT id FROM free)) IS NOT TRUE
