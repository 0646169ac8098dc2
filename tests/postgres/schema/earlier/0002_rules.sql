-- Unique keys, ordering keys, limits, concurrency, rates and aging.

ALTER TABLE jobs
    ADD COLUMN ordering_key text,
    -- its ordering key has let it through, and it has not let go of it
    ADD COLUMN holds boolean NOT NULL DEFAULT false,
    ADD COLUMN unique_key text,
    -- null: while the job is unfinished
    ADD COLUMN unique_seconds double precision,
    -- with aging: the rank that it has when it is ready
    ADD COLUMN place bigint;
ALTER TABLE jobs_dead
    ADD COLUMN ordering_key text, ADD COLUMN holds boolean NOT NULL DEFAULT false,
    ADD COLUMN unique_key text, ADD COLUMN unique_seconds double precision;
ALTER TABLE job_history
    ADD COLUMN ordering_key text, ADD COLUMN unique_key text, ADD COLUMN unique_seconds double precision;

-- A queued job without a rank waits for its ordering key.
ALTER TABLE jobs DROP CONSTRAINT jobs_ready_check;
ALTER TABLE jobs ADD CONSTRAINT jobs_ready_check CHECK (
    status = 'queued' AND rank IS NOT NULL AND rank = coalesce(place, (127 - priority)::bigint << 45 | seq)
        AND holds = (ordering_key IS NOT NULL)
    OR status = 'queued' AND rank IS NULL AND ordering_key IS NOT NULL AND NOT holds
    OR status = 'retrying' AND rank IS NULL AND holds = (ordering_key IS NOT NULL)
    OR status = 'scheduled' AND rank IS NULL AND (NOT holds OR ordering_key IS NOT NULL)
);
DROP INDEX jobs_due;
CREATE INDEX jobs_due ON jobs (run_at) WHERE rank IS NULL AND status <> 'queued';
-- Who holds an ordering key, and who waits for it in the order of arrival.
CREATE INDEX jobs_keyed ON jobs (queue_id, ordering_key, holds, status, seq) WHERE ordering_key IS NOT NULL;
CREATE INDEX jobs_dead_holding ON jobs_dead (queue_id, ordering_key) WHERE holds;

-- An ordering key in use. Nothing but a lock: whoever lets go of a key, or comes to wait for it, locks its row and then, in a
-- new statement, lets the next ones through. So the last to do so has seen what all others did.
CREATE TABLE order_gates (
    queue_id int NOT NULL,
    key text NOT NULL,
    CONSTRAINT order_gates_pkey PRIMARY KEY (queue_id, key)
) WITH (fillfactor = 70);

-- Ordering keys that were let go of while somebody's open transaction had the gate locked: the leader lets the next through.
CREATE TABLE order_checks (
    queue_id int NOT NULL,
    key text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000);

-- Who holds a unique key, and until when; `infinity`: for as long as that job is among the unfinished ones.
CREATE TABLE job_keys (
    queue_id int NOT NULL,
    key text NOT NULL,
    job_id uuid NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT job_keys_pkey PRIMARY KEY (queue_id, key)
) WITH (fillfactor = 70);
CREATE INDEX job_keys_expires ON job_keys (expires_at) WHERE expires_at < 'infinity';

-- Room below a limit, by band of priority ('' = all): never more than there is. It is used up by enqueues, and counted anew
-- when it does not suffice or is a minute old; what goes back among the waiting is noted beside it, so that no settle waits.
CREATE TABLE queue_rooms (
    queue_id int NOT NULL,
    band text NOT NULL CONSTRAINT queue_rooms_band_check CHECK (band IN ('', 'high', 'normal', 'low')),
    most int NOT NULL,
    room int NOT NULL CONSTRAINT queue_rooms_room_check CHECK (room >= 0),
    counted_at timestamptz NOT NULL,
    CONSTRAINT queue_rooms_pkey PRIMARY KEY (queue_id, band)
) WITH (fillfactor = 50);
CREATE TABLE queue_returns (
    queue_id int NOT NULL,
    band text NOT NULL,
    n int NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX queue_returns_queue ON queue_returns (queue_id, band);

-- The starts that a queue's rate allows, as of a time; locked by each claim of a queue with a concurrency or a rate.
CREATE TABLE queue_starts (
    queue_id int CONSTRAINT queue_starts_pkey PRIMARY KEY,
    tokens double precision NOT NULL,
    refilled_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- The last arrival in a queue with aging, in microseconds since the epoch; `n` arrived together.
CREATE TABLE queue_arrivals (
    queue_id int CONSTRAINT queue_arrivals_pkey PRIMARY KEY,
    last_us bigint NOT NULL,
    n int NOT NULL
) WITH (fillfactor = 50);

CREATE FUNCTION priority_band(priority smallint) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN priority >= 10 THEN 'high' WHEN priority >= 5 THEN 'normal' ELSE 'low' END
$$;

-- The place of a job in a queue with aging: its arrival, in microseconds since 2020, put off by a step for each priority that
-- it is lower. Null without aging.
CREATE FUNCTION aged_rank(priority smallint, arrival_us bigint, aging_us bigint) RETURNS bigint LANGUAGE sql IMMUTABLE
PARALLEL SAFE AS $$
    SELECT greatest(0, arrival_us - 1577836800000000) + (127 - priority) * nullif(aging_us, 0)
$$;

-- The views of before, each with the keys at its end.
CREATE OR REPLACE VIEW running_jobs AS
    SELECT j.id, q.name AS queue, j.queue_id, j.type, 'running'::job_status AS status, j.priority, j.payload, j.tags,
           j.retry_count, j.max_retries, j.crashes, l.token, j.run_at, j.created_at, l.started_at,
           NULL::timestamptz AS finished_at, l.started_at AS updated_at, j.error, NULL::text AS result,
           (SELECT a.signature FROM job_attempts a WHERE a.job_id = j.id ORDER BY a.token DESC LIMIT 1) AS signature,
           (SELECT a.kind FROM job_attempts a WHERE a.job_id = j.id ORDER BY a.token DESC LIMIT 1) AS kind,
           l.progress, l.message, l.worker, l.expires_at, l.cancel, NULL::timestamptz AS trashed_at,
           j.ordering_key, j.unique_key
      FROM leases l JOIN jobs j ON j.id = l.id LEFT JOIN queues q ON q.id = j.queue_id;

CREATE OR REPLACE VIEW waiting_jobs AS
    SELECT j.id, q.name AS queue, j.queue_id, j.type, j.status, j.priority, j.payload, j.tags,
           j.retry_count, j.max_retries, j.crashes, j.last_token AS token, j.run_at, j.created_at,
           NULL::timestamptz AS started_at, NULL::timestamptz AS finished_at, j.updated_at, j.error, NULL::text AS result,
           (SELECT a.signature FROM job_attempts a WHERE a.job_id = j.id ORDER BY a.token DESC LIMIT 1) AS signature,
           (SELECT a.kind FROM job_attempts a WHERE a.job_id = j.id ORDER BY a.token DESC LIMIT 1) AS kind,
           0::smallint AS progress, '' AS message, NULL::text AS worker, NULL::timestamptz AS expires_at, false AS cancel,
           NULL::timestamptz AS trashed_at, j.ordering_key, j.unique_key
      FROM jobs j LEFT JOIN queues q ON q.id = j.queue_id
     WHERE NOT EXISTS (SELECT FROM leases l WHERE l.id = j.id);

CREATE OR REPLACE VIEW dead_jobs AS
    SELECT d.id, q.name AS queue, d.queue_id, d.type, 'dead'::job_status AS status, d.priority, d.payload, d.tags,
           d.retry_count, d.max_retries, d.crashes, d.last_token AS token, d.run_at, d.created_at, d.started_at,
           d.died_at AS finished_at, d.died_at AS updated_at, d.error, NULL::text AS result, d.signature, d.kind,
           d.progress, d.message, d.worker, NULL::timestamptz AS expires_at, false AS cancel, NULL::timestamptz AS trashed_at,
           d.ordering_key, d.unique_key
      FROM jobs_dead d LEFT JOIN queues q ON q.id = d.queue_id
     WHERE d.trashed_at IS NULL;

CREATE OR REPLACE VIEW trashed_jobs AS
    SELECT d.id, q.name AS queue, d.queue_id, d.type, 'dead'::job_status AS status, d.priority, d.payload, d.tags,
           d.retry_count, d.max_retries, d.crashes, d.last_token AS token, d.run_at, d.created_at, d.started_at,
           d.died_at AS finished_at, d.trashed_at AS updated_at, d.error, NULL::text AS result, d.signature, d.kind,
           d.progress, d.message, d.worker, NULL::timestamptz AS expires_at, false AS cancel, d.trashed_at,
           d.ordering_key, d.unique_key
      FROM jobs_dead d LEFT JOIN queues q ON q.id = d.queue_id
     WHERE d.trashed_at IS NOT NULL;

CREATE OR REPLACE VIEW finished_jobs AS
    SELECT h.id, q.name AS queue, h.queue_id, h.type, h.status, h.priority, h.payload, h.tags,
           h.retry_count, h.max_retries, h.crashes, h.last_token AS token, h.run_at, h.created_at, h.started_at,
           h.finished_at, h.finished_at AS updated_at, h.error, h.result,
           (SELECT a.signature FROM job_attempts a WHERE a.job_id = h.id ORDER BY a.token DESC LIMIT 1) AS signature,
           (SELECT a.kind FROM job_attempts a WHERE a.job_id = h.id ORDER BY a.token DESC LIMIT 1) AS kind,
           CASE WHEN h.status = 'completed' THEN 100 ELSE 0 END::smallint AS progress, '' AS message, h.worker,
           NULL::timestamptz AS expires_at, false AS cancel, NULL::timestamptz AS trashed_at, h.ordering_key, h.unique_key
      FROM job_history h LEFT JOIN queues q ON q.id = h.queue_id;

CREATE OR REPLACE VIEW all_jobs AS
    SELECT * FROM running_jobs
    UNION ALL SELECT * FROM waiting_jobs
    UNION ALL SELECT * FROM dead_jobs
    UNION ALL SELECT * FROM trashed_jobs
    UNION ALL SELECT * FROM finished_jobs;
