-- Queues, unfinished jobs, leases, the dead, the history, workers and totals.

CREATE TABLE queues (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL CONSTRAINT queues_name_key UNIQUE CONSTRAINT queues_name_check CHECK (name <> '' AND length(name) <= 200),
    paused_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TYPE job_status AS ENUM ('scheduled', 'queued', 'running', 'retrying', 'completed', 'cancelled', 'dead');

-- Order of arrival: the low 45 bits of a rank.
CREATE SEQUENCE job_seq MAXVALUE 35184372088831;

-- The narrow hot table: unfinished jobs only. A running job keeps its row and its rank; its lease says that it runs.
CREATE TABLE jobs (
    id uuid CONSTRAINT jobs_pkey PRIMARY KEY,
    queue_id int NOT NULL,
    -- (127 - priority) << 45 | seq; null = not ready. Both the index's order and the Redis score.
    rank bigint,
    seq bigint NOT NULL,
    priority smallint NOT NULL CONSTRAINT jobs_priority_check CHECK (priority BETWEEN -128 AND 127),
    status job_status NOT NULL,
    run_at timestamptz NOT NULL,
    type text NOT NULL,
    payload text NOT NULL,
    tags text[],
    retry_count int NOT NULL DEFAULT 0,
    crashes int NOT NULL DEFAULT 0,
    max_retries int NOT NULL,
    -- the highest token that ended an attempt of this job; nothing ever lowers it
    last_token bigint NOT NULL DEFAULT 0,
    -- one line about the last failed attempt
    error text,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT jobs_ready_check CHECK (
        status = 'queued' AND rank IS NOT NULL AND rank = ((127 - priority)::bigint << 45 | seq)
        OR status IN ('scheduled', 'retrying') AND rank IS NULL
    )
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1);

CREATE INDEX jobs_ready ON jobs (queue_id, rank) WHERE rank IS NOT NULL;
CREATE INDEX jobs_due ON jobs (run_at) WHERE rank IS NULL;

-- Running jobs. No index but the key: the table is small and scanned.
CREATE TABLE leases (
    id uuid CONSTRAINT leases_pkey PRIMARY KEY,
    token bigint NOT NULL,
    queue_id int NOT NULL,
    worker text NOT NULL,
    started_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    progress smallint NOT NULL DEFAULT 0 CONSTRAINT leases_progress_check CHECK (progress BETWEEN 0 AND 100),
    message text NOT NULL DEFAULT '',
    cancel boolean NOT NULL DEFAULT false,
    -- false: claimed ahead, waiting in the worker for a slot
    begun boolean NOT NULL DEFAULT true
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000);

-- A lease token is epoch << 40 | nextval. Claims commit asynchronously, so after a crash of the server the sequence may
-- repeat itself; the live copy of the epoch is then gone (unlogged) and claims find nothing until a higher one is durable.
CREATE SEQUENCE lease_seq MAXVALUE 1099511627775 CYCLE;
CREATE TABLE lease_epoch (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    epoch int NOT NULL CONSTRAINT lease_epoch_check CHECK (epoch BETWEEN 0 AND 4194303)
);
INSERT INTO lease_epoch (epoch) VALUES (0);
CREATE UNLOGGED TABLE lease_epoch_live (one boolean PRIMARY KEY DEFAULT true CHECK (one), epoch int NOT NULL);

CREATE TABLE jobs_dead (
    id uuid CONSTRAINT jobs_dead_pkey PRIMARY KEY,
    queue_id int NOT NULL,
    seq bigint NOT NULL,
    priority smallint NOT NULL,
    run_at timestamptz NOT NULL,
    type text NOT NULL,
    payload text NOT NULL,
    tags text[],
    retry_count int NOT NULL,
    crashes int NOT NULL,
    max_retries int NOT NULL,
    last_token bigint NOT NULL,
    error text,
    signature text NOT NULL,
    kind text NOT NULL,
    progress smallint NOT NULL DEFAULT 0,
    message text NOT NULL DEFAULT '',
    worker text,
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    died_at timestamptz NOT NULL DEFAULT now(),
    trashed_at timestamptz
);
CREATE INDEX jobs_dead_newest ON jobs_dead (died_at, id) WHERE trashed_at IS NULL;
-- Covers what groups and counts of the DLQ read, so that they never touch the rows with their payloads.
CREATE INDEX jobs_dead_signature ON jobs_dead (signature, died_at, id) INCLUDE (queue_id, type) WHERE trashed_at IS NULL;
CREATE INDEX jobs_dead_trash ON jobs_dead (trashed_at, id) WHERE trashed_at IS NOT NULL;

CREATE TABLE error_signatures (
    signature text PRIMARY KEY,
    title text NOT NULL,
    exception text NOT NULL,
    first_seen timestamptz NOT NULL DEFAULT now()
);

-- Failed attempts of jobs that are unfinished, dead or kept in the history.
CREATE TABLE job_attempts (
    job_id uuid NOT NULL,
    token bigint NOT NULL,
    number int NOT NULL,
    kind text NOT NULL,
    exception text NOT NULL,
    message text NOT NULL,
    traceback text NOT NULL,
    signature text NOT NULL,
    -- what ended it: how a settle whose reply was lost is told from another one
    outcome text NOT NULL
        CONSTRAINT job_attempts_outcome_check CHECK (outcome IN ('retrying', 'dead', 'released', 'crashed', 'poison')),
    worker text,
    started_at timestamptz,
    finished_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT job_attempts_pkey PRIMARY KEY (job_id, token)
);
CREATE INDEX job_attempts_finished ON job_attempts (finished_at);

-- Completed and cancelled jobs, a partition for each day, dropped whole when their retention is over.
CREATE TABLE job_history (
    id uuid NOT NULL,
    queue_id int NOT NULL,
    seq bigint NOT NULL,
    priority smallint NOT NULL,
    status job_status NOT NULL CONSTRAINT job_history_status_check CHECK (status IN ('completed', 'cancelled')),
    run_at timestamptz NOT NULL,
    type text NOT NULL,
    payload text NOT NULL,
    tags text[],
    retry_count int NOT NULL,
    crashes int NOT NULL,
    max_retries int NOT NULL,
    last_token bigint NOT NULL,
    error text,
    result text,
    worker text,
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    finished_at timestamptz NOT NULL DEFAULT now()
) PARTITION BY RANGE (finished_at);
CREATE INDEX job_history_id ON job_history (id);
CREATE INDEX job_history_newest ON job_history (finished_at, id);

-- Make the history's partitions from yesterday to some days ahead, days in UTC. Returns how many were missing. A table made
-- apart and then attached leaves the hot path's writers alone, where CREATE TABLE … PARTITION OF locks them out.
CREATE FUNCTION make_job_history(days_ahead int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    today date := (now() AT TIME ZONE 'UTC')::date;
    day date;
    name text;
    made int := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(5812640217730002);
    FOR day IN SELECT today + n FROM generate_series(-1, days_ahead) AS n LOOP
        name := 'job_history_' || to_char(day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass(name) IS NOT NULL;
        EXECUTE format('CREATE TABLE %I (LIKE job_history INCLUDING ALL)', name);
        EXECUTE format('ALTER TABLE job_history ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name,
                       to_char(day, 'YYYY-MM-DD') || ' 00:00+00', to_char(day + 1, 'YYYY-MM-DD') || ' 00:00+00');
        made := made + 1;
    END LOOP;
    RETURN made;
END
$$;

CREATE TABLE workers (
    id text PRIMARY KEY,
    host text NOT NULL,
    pid int NOT NULL,
    version text NOT NULL,
    queues text[] NOT NULL,
    types text[] NOT NULL,
    concurrency int NOT NULL,
    busy int NOT NULL,
    quiet boolean NOT NULL,
    command text NOT NULL DEFAULT '' CONSTRAINT workers_command_check CHECK (command IN ('', 'quiet', 'resume', 'stop')),
    interval_s double precision NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    heartbeat_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

CREATE TABLE leaders (
    duty text PRIMARY KEY,
    worker text NOT NULL,
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Totals. Whoever settles appends a row in the same transaction, so nothing is contended and nothing can be lost;
-- the leader folds the rows into `tallies`, `minutes` and `signature_minutes`. Readers add both.
-- Bucket numbers are indexes into the histogram's bounds; -1 = not measured.
CREATE TABLE tally_deltas (
    queue_id int NOT NULL,
    type text NOT NULL,
    outcome text NOT NULL,
    signature text NOT NULL DEFAULT '',
    wait_bucket smallint NOT NULL DEFAULT -1,
    run_bucket smallint NOT NULL DEFAULT -1,
    n bigint NOT NULL,
    wait_us bigint NOT NULL DEFAULT 0,
    run_us bigint NOT NULL DEFAULT 0,
    at timestamptz NOT NULL DEFAULT now()
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 5000);

CREATE TABLE tallies (
    queue_id int NOT NULL,
    type text NOT NULL,
    outcome text NOT NULL,
    wait_bucket smallint NOT NULL,
    run_bucket smallint NOT NULL,
    n bigint NOT NULL,
    wait_us bigint NOT NULL,
    run_us bigint NOT NULL,
    PRIMARY KEY (queue_id, type, outcome, wait_bucket, run_bucket)
) WITH (fillfactor = 50);

CREATE TABLE minutes (
    queue_id int NOT NULL,
    minute timestamptz NOT NULL,
    outcome text NOT NULL,
    n bigint NOT NULL,
    PRIMARY KEY (minute, queue_id, outcome)
) WITH (fillfactor = 50);

CREATE TABLE signature_minutes (
    signature text NOT NULL,
    queue_id int NOT NULL,
    minute timestamptz NOT NULL,
    n bigint NOT NULL,
    PRIMARY KEY (minute, signature, queue_id)
) WITH (fillfactor = 50);

-- Jobs as people and the inspector see them, one view for each place that holds them and all of them together. updated_at
-- is the time of the last change, by which lists are ordered: in the history and the DLQ an index has that order. (The
-- joins are LEFT so that the planner can leave them out where nobody asks for the queue's name.)
CREATE VIEW running_jobs AS
    SELECT j.id, q.name AS queue, j.queue_id, j.type, 'running'::job_status AS status, j.priority, j.payload, j.tags,
           j.retry_count, j.max_retries, j.crashes, l.token, j.run_at, j.created_at, l.started_at,
           NULL::timestamptz AS finished_at, l.started_at AS updated_at, j.error, NULL::text AS result,
           (SELECT a.signature FROM job_attempts a WHERE a.job_id = j.id ORDER BY a.token DESC LIMIT 1) AS signature,
           (SELECT a.kind FROM job_attempts a WHERE a.job_id = j.id ORDER BY a.token DESC LIMIT 1) AS kind,
           l.progress, l.message, l.worker, l.expires_at, l.cancel, NULL::timestamptz AS trashed_at
      FROM leases l JOIN jobs j ON j.id = l.id LEFT JOIN queues q ON q.id = j.queue_id;

CREATE VIEW waiting_jobs AS
    SELECT j.id, q.name AS queue, j.queue_id, j.type, j.status, j.priority, j.payload, j.tags,
           j.retry_count, j.max_retries, j.crashes, j.last_token AS token, j.run_at, j.created_at,
           NULL::timestamptz AS started_at, NULL::timestamptz AS finished_at, j.updated_at, j.error, NULL::text AS result,
           (SELECT a.signature FROM job_attempts a WHERE a.job_id = j.id ORDER BY a.token DESC LIMIT 1) AS signature,
           (SELECT a.kind FROM job_attempts a WHERE a.job_id = j.id ORDER BY a.token DESC LIMIT 1) AS kind,
           0::smallint AS progress, '' AS message, NULL::text AS worker, NULL::timestamptz AS expires_at, false AS cancel,
           NULL::timestamptz AS trashed_at
      FROM jobs j LEFT JOIN queues q ON q.id = j.queue_id
     WHERE NOT EXISTS (SELECT FROM leases l WHERE l.id = j.id);

CREATE VIEW dead_jobs AS
    SELECT d.id, q.name AS queue, d.queue_id, d.type, 'dead'::job_status AS status, d.priority, d.payload, d.tags,
           d.retry_count, d.max_retries, d.crashes, d.last_token AS token, d.run_at, d.created_at, d.started_at,
           d.died_at AS finished_at, d.died_at AS updated_at, d.error, NULL::text AS result, d.signature, d.kind,
           d.progress, d.message, d.worker, NULL::timestamptz AS expires_at, false AS cancel, NULL::timestamptz AS trashed_at
      FROM jobs_dead d LEFT JOIN queues q ON q.id = d.queue_id
     WHERE d.trashed_at IS NULL;

CREATE VIEW trashed_jobs AS
    SELECT d.id, q.name AS queue, d.queue_id, d.type, 'dead'::job_status AS status, d.priority, d.payload, d.tags,
           d.retry_count, d.max_retries, d.crashes, d.last_token AS token, d.run_at, d.created_at, d.started_at,
           d.died_at AS finished_at, d.trashed_at AS updated_at, d.error, NULL::text AS result, d.signature, d.kind,
           d.progress, d.message, d.worker, NULL::timestamptz AS expires_at, false AS cancel, d.trashed_at
      FROM jobs_dead d LEFT JOIN queues q ON q.id = d.queue_id
     WHERE d.trashed_at IS NOT NULL;

CREATE VIEW finished_jobs AS
    SELECT h.id, q.name AS queue, h.queue_id, h.type, h.status, h.priority, h.payload, h.tags,
           h.retry_count, h.max_retries, h.crashes, h.last_token AS token, h.run_at, h.created_at, h.started_at,
           h.finished_at, h.finished_at AS updated_at, h.error, h.result,
           (SELECT a.signature FROM job_attempts a WHERE a.job_id = h.id ORDER BY a.token DESC LIMIT 1) AS signature,
           (SELECT a.kind FROM job_attempts a WHERE a.job_id = h.id ORDER BY a.token DESC LIMIT 1) AS kind,
           CASE WHEN h.status = 'completed' THEN 100 ELSE 0 END::smallint AS progress, '' AS message, h.worker,
           NULL::timestamptz AS expires_at, false AS cancel, NULL::timestamptz AS trashed_at
      FROM job_history h LEFT JOIN queues q ON q.id = h.queue_id;

CREATE VIEW all_jobs AS
    SELECT * FROM running_jobs
    UNION ALL SELECT * FROM waiting_jobs
    UNION ALL SELECT * FROM dead_jobs
    UNION ALL SELECT * FROM trashed_jobs
    UNION ALL SELECT * FROM finished_jobs;

-- Whether the value at a path of a payload is equal to, contains, is less or is greater than a filter's value; what is not
-- there, is no scalar, or stands in a text that is no JSON, matches nothing. `number` is the value where it reads as one.
CREATE FUNCTION payload_matches(payload text, path text[], operator text, value text, number numeric)
RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    found jsonb;
    shown text;
BEGIN
    found := payload::jsonb #> path;
    shown := coalesce(found #>> '{}', 'null');
    IF found IS NULL OR jsonb_typeof(found) IN ('object', 'array') THEN
        RETURN false;
    ELSIF operator = '~' THEN
        RETURN strpos(lower(shown), lower(value)) > 0;
    ELSIF jsonb_typeof(found) = 'number' AND number IS NOT NULL THEN
        RETURN CASE operator WHEN '<' THEN shown::numeric < number
                             WHEN '>' THEN shown::numeric > number
                             ELSE shown::numeric = number END;
    END IF;
    RETURN operator = '=' AND shown = value;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN false;
END
$$;

-- Drop the days of the history that ended before a moment, appending what they held to the totals as expired. Returns the
-- number of days dropped. The lock on the parent is taken with a short patience: a later round tries again.
CREATE FUNCTION drop_job_history(before timestamptz) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    day record;
    dropped int := 0;
BEGIN
    PERFORM set_config('lock_timeout', '2s', true);
    FOR day IN
        SELECT c.oid::regclass AS name,
               (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'TO \(''([^'']+)''\)'))[1]::timestamptz AS ends
          FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent = 'job_history'::regclass
    LOOP
        CONTINUE WHEN day.ends > before;
        -- A job of that day that is just being retried is unfinished, or counted here, but never both.
        EXECUTE format('LOCK TABLE %s IN SHARE MODE', day.name);
        EXECUTE format(
            'INSERT INTO tally_deltas (queue_id, type, outcome, n)
             SELECT queue_id, type, ''expired_'' || status, count(*) FROM %s GROUP BY 1, 2, 3', day.name);
        EXECUTE format('DELETE FROM job_attempts a USING %s h WHERE a.job_id = h.id', day.name);
        EXECUTE format('DROP TABLE %s', day.name);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END
$$;
