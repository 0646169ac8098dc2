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
        status = 'queued' AND rank = ((127 - priority)::bigint << 45 | seq)
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
    cancel boolean NOT NULL DEFAULT false
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
CREATE INDEX jobs_dead_signature ON jobs_dead (signature, died_at, id) WHERE trashed_at IS NULL;
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

-- Every job with its state, for people and for the inspector; the planner leaves out the branches a filter excludes.
CREATE VIEW all_jobs AS
    SELECT j.id, q.name AS queue, j.queue_id, j.type, 'running'::job_status AS status, j.priority, j.payload, j.tags,
           j.retry_count, j.max_retries, j.crashes, l.token, j.run_at, j.created_at, l.started_at, NULL::timestamptz AS finished_at,
           l.started_at AS updated_at, j.error, NULL::text AS result, NULL::text AS signature, NULL::text AS kind,
           l.progress, l.message, l.worker, l.expires_at, l.cancel, NULL::timestamptz AS trashed_at
      FROM jobs j JOIN leases l ON l.id = j.id JOIN queues q ON q.id = j.queue_id
    UNION ALL
    SELECT j.id, q.name, j.queue_id, j.type, j.status, j.priority, j.payload, j.tags,
           j.retry_count, j.max_retries, j.crashes, j.last_token, j.run_at, j.created_at, NULL, NULL,
           j.updated_at, j.error, NULL, NULL, NULL, 0, '', NULL, NULL, false, NULL
      FROM jobs j JOIN queues q ON q.id = j.queue_id
     WHERE NOT EXISTS (SELECT FROM leases l WHERE l.id = j.id)
    UNION ALL
    SELECT d.id, q.name, d.queue_id, d.type, 'dead'::job_status, d.priority, d.payload, d.tags,
           d.retry_count, d.max_retries, d.crashes, d.last_token, d.run_at, d.created_at, d.started_at, d.died_at,
           coalesce(d.trashed_at, d.died_at), d.error, NULL, d.signature, d.kind, d.progress, d.message, d.worker, NULL, false, d.trashed_at
      FROM jobs_dead d JOIN queues q ON q.id = d.queue_id
    UNION ALL
    SELECT h.id, q.name, h.queue_id, h.type, h.status, h.priority, h.payload, h.tags,
           h.retry_count, h.max_retries, h.crashes, h.last_token, h.run_at, h.created_at, h.started_at, h.finished_at,
           h.finished_at, h.error, h.result, NULL, NULL, CASE WHEN h.status = 'completed' THEN 100 ELSE 0 END, '', h.worker, NULL, false, NULL
      FROM job_history h JOIN queues q ON q.id = h.queue_id;
