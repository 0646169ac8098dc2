-- All tables of the store, in a schema of its own: `{schema}` is replaced by its name. Version 1 had the same ones under other names
-- (migrate/rename in sql/migrate.sql).

-- Queues, unfinished jobs, leases, the dead, the history, workers and totals.

CREATE TABLE {schema}.queues (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL CONSTRAINT queues_name_key UNIQUE CONSTRAINT queues_name_check CHECK (name <> '' AND length(name) <= 200),
    paused_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TYPE {schema}.job_status AS ENUM ('scheduled', 'queued', 'running', 'retrying', 'completed', 'cancelled', 'dead');

-- Order of arrival: the low 45 bits of a rank.
CREATE SEQUENCE {schema}.job_seq MAXVALUE 35184372088831;

-- The narrow hot table: unfinished jobs only. A running job keeps its row and its rank; its lease shows that it runs.
CREATE TABLE {schema}.jobs (
    id uuid CONSTRAINT jobs_pkey PRIMARY KEY,
    queue_id int NOT NULL,
    -- (127 - priority) << 45 | seq, or its aged rank; null = not ready. Both the index's order and the Redis score.
    rank bigint,
    seq bigint NOT NULL,
    priority smallint NOT NULL CONSTRAINT jobs_priority_check CHECK (priority BETWEEN -128 AND 127),
    status {schema}.job_status NOT NULL,
    run_at timestamptz NOT NULL,
    type text NOT NULL,
    payload text NOT NULL,
    tags text[],
    retry_count int NOT NULL DEFAULT 0,
    -- how often a worker saw the process die in which it ran alone
    crashes int NOT NULL DEFAULT 0,
    max_retries int NOT NULL,
    -- the highest token that ended an attempt of this job; nothing ever lowers it
    last_token bigint NOT NULL DEFAULT 0,
    -- one line about the last failed attempt
    error text,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    ordering_key text,
    -- its ordering key has admitted it, and it has not released the key
    admitted boolean NOT NULL DEFAULT false,
    unique_key text,
    -- null: while the job is unfinished
    unique_seconds double precision,
    -- with aging: the rank that it has when it is ready
    aged_rank bigint,
    -- how many workers were lost while they ran it
    losses int NOT NULL DEFAULT 0,
    -- A queued job without a rank waits for its ordering key. One that was moved to another queue while it was to be retried does so
    -- when it is due.
    CONSTRAINT jobs_ready_check CHECK (
        status = 'queued' AND rank IS NOT NULL AND rank = coalesce(aged_rank, (127 - priority)::bigint << 45 | seq)
            AND admitted = (ordering_key IS NOT NULL)
        OR status = 'queued' AND rank IS NULL AND ordering_key IS NOT NULL AND NOT admitted
        OR status IN ('scheduled', 'retrying') AND rank IS NULL AND (NOT admitted OR ordering_key IS NOT NULL)
    )
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1);

CREATE INDEX jobs_ready ON {schema}.jobs (queue_id, rank) WHERE rank IS NOT NULL;
CREATE INDEX jobs_due ON {schema}.jobs (run_at) WHERE rank IS NULL AND status <> 'queued';
-- Jobs that an ordering key has admitted, and those that wait for it in the order of arrival.
CREATE INDEX jobs_ordering ON {schema}.jobs (queue_id, ordering_key, admitted, status, seq) WHERE ordering_key IS NOT NULL;

-- Running jobs. No index but the key on what each of them changes: the table is small and scanned.
CREATE TABLE {schema}.leases (
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
    started boolean NOT NULL DEFAULT true,
    -- The number of the worker's claim that made the lease, counted by the worker; 0 = it counts none. Where the answer to a claim
    -- got lost, its worker finds by it what it was given.
    claim int NOT NULL DEFAULT 0,
    -- claimed in a queue with a concurrency or a rate, by a worker with these rules; such claims come one after another
    limited boolean NOT NULL DEFAULT false
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000);
-- The leases with a cancel request, for each heartbeat: a scan of all reads the ended ones, too, for as long as an open
-- snapshot keeps them. Claims, renewals and settles do not touch it.
CREATE INDEX leases_cancelled ON {schema}.leases (worker) WHERE cancel;
-- In the order of their tokens, those that are younger than the last count are found without the many that ended before it.
CREATE INDEX leases_limited ON {schema}.leases (queue_id, token) WHERE limited;

-- A lease token is epoch << 40 | nextval. Claims commit asynchronously, so after a crash of the server the sequence may
-- repeat itself; the live copy of the epoch is then gone (unlogged) and claims find nothing until a higher one is durable.
CREATE SEQUENCE {schema}.lease_seq MAXVALUE 1099511627775 CYCLE;
CREATE TABLE {schema}.lease_epoch (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    epoch int NOT NULL CONSTRAINT lease_epoch_check CHECK (epoch BETWEEN 0 AND 4194303)
);
INSERT INTO {schema}.lease_epoch (epoch) VALUES (0);
CREATE UNLOGGED TABLE {schema}.lease_epoch_live (one boolean PRIMARY KEY DEFAULT true CHECK (one), epoch int NOT NULL);

CREATE TABLE {schema}.jobs_dead (
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
    trashed_at timestamptz,
    ordering_key text,
    admitted boolean NOT NULL DEFAULT false,
    unique_key text,
    unique_seconds double precision,
    losses int NOT NULL DEFAULT 0
);
CREATE INDEX jobs_dead_newest ON {schema}.jobs_dead (died_at, id) WHERE trashed_at IS NULL;
-- Covers what groups and counts of the DLQ read, so that they never touch the rows with their payloads.
CREATE INDEX jobs_dead_signature ON {schema}.jobs_dead (signature, died_at, id) INCLUDE (queue_id, type) WHERE trashed_at IS NULL;
CREATE INDEX jobs_dead_trash ON {schema}.jobs_dead (trashed_at, id) WHERE trashed_at IS NOT NULL;
CREATE INDEX jobs_dead_admitted ON {schema}.jobs_dead (queue_id, ordering_key) WHERE admitted;

CREATE TABLE {schema}.error_signatures (
    signature text PRIMARY KEY,
    title text NOT NULL,
    exception text NOT NULL,
    first_seen timestamptz NOT NULL DEFAULT now()
);

-- Failed attempts of jobs that are unfinished, dead or kept in the history.
CREATE TABLE {schema}.job_attempts (
    job_id uuid NOT NULL,
    token bigint NOT NULL,
    number int NOT NULL,
    kind text NOT NULL,
    exception text NOT NULL,
    message text NOT NULL,
    traceback text NOT NULL,
    signature text NOT NULL,
    -- what ended it: how a settle whose reply was lost is distinguished from another one
    outcome text NOT NULL
        CONSTRAINT job_attempts_outcome_check CHECK (outcome IN ('retrying', 'dead', 'released', 'crashed', 'poison')),
    worker text,
    started_at timestamptz,
    finished_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT job_attempts_pkey PRIMARY KEY (job_id, token)
);
CREATE INDEX job_attempts_finished ON {schema}.job_attempts (finished_at);

-- Completed and cancelled jobs, a partition for each day, dropped whole when their retention is over.
CREATE TABLE {schema}.job_history (
    id uuid NOT NULL,
    queue_id int NOT NULL,
    seq bigint NOT NULL,
    priority smallint NOT NULL,
    status {schema}.job_status NOT NULL CONSTRAINT job_history_status_check CHECK (status IN ('completed', 'cancelled')),
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
    finished_at timestamptz NOT NULL DEFAULT now(),
    ordering_key text,
    unique_key text,
    unique_seconds double precision,
    losses int NOT NULL DEFAULT 0
) PARTITION BY RANGE (finished_at);
CREATE INDEX job_history_id ON {schema}.job_history (id);
CREATE INDEX job_history_newest ON {schema}.job_history (finished_at, id);

-- Make the history's partitions from yesterday to some days ahead, days in UTC. Returns how many were missing. A table made
-- apart and then attached leaves the hot path's writers alone, where CREATE TABLE ... PARTITION OF locks them out.
-- Days that another session has made while this one waited are read from the catalog: names that were looked for before are remembered as
-- missing, and to wait for an advisory lock does not change that.
CREATE FUNCTION {schema}.make_job_history(days_ahead int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    today date := (now() AT TIME ZONE 'UTC')::date;
    day date;
    name text;
    made int := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('queue_core history {schema}', 0));
    FOR day IN SELECT today + n FROM generate_series(-1, days_ahead) AS n LOOP
        name := 'job_history_' || to_char(day, 'YYYYMMDD');
        CONTINUE WHEN EXISTS (SELECT FROM pg_class AS there JOIN pg_class AS parent ON parent.relnamespace = there.relnamespace
                               WHERE parent.oid = '{schema}.job_history'::regclass AND there.relname = name);
        EXECUTE format('CREATE TABLE {schema}.%I (LIKE {schema}.job_history INCLUDING ALL)', name);
        EXECUTE format('ALTER TABLE {schema}.job_history ATTACH PARTITION {schema}.%I FOR VALUES FROM (%L) TO (%L)', name,
                       to_char(day, 'YYYY-MM-DD') || ' 00:00+00', to_char(day + 1, 'YYYY-MM-DD') || ' 00:00+00');
        made := made + 1;
    END LOOP;
    RETURN made;
END
$$;

CREATE TABLE {schema}.workers (
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
    heartbeat_at timestamptz NOT NULL DEFAULT now(),
    -- Where its process runs (machine, its start, process namespace), and which process it is there (number, start): only a worker
    -- at the same place knows that it is gone. Empty = no worker does.
    place text NOT NULL DEFAULT '',
    process text NOT NULL DEFAULT '',
    -- handlers that it gave up and that still run: they swallow their cancellation, or are threads, which cannot be ended
    stuck int NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE INDEX workers_place ON {schema}.workers (place) WHERE place <> '';

CREATE TABLE {schema}.leaders (
    duty text PRIMARY KEY,
    worker text NOT NULL,
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Totals. Each settle appends a row in the same transaction, so nothing is contended and nothing can be lost;
-- the leader folds the rows into `tallies`, `minutes` and `signature_minutes`. Readers add both.
-- Bucket numbers are indexes into the histogram's bounds; -1 = not measured.
CREATE TABLE {schema}.tally_deltas (
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

CREATE TABLE {schema}.tallies (
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

CREATE TABLE {schema}.minutes (
    queue_id int NOT NULL,
    minute timestamptz NOT NULL,
    outcome text NOT NULL,
    n bigint NOT NULL,
    PRIMARY KEY (minute, queue_id, outcome)
) WITH (fillfactor = 50);

CREATE TABLE {schema}.signature_minutes (
    signature text NOT NULL,
    queue_id int NOT NULL,
    minute timestamptz NOT NULL,
    n bigint NOT NULL,
    PRIMARY KEY (minute, signature, queue_id)
) WITH (fillfactor = 50);

-- Jobs as people and the inspector see them, one view for each table of them and all of them together. updated_at
-- is the time of the last change, by which lists are ordered: in the history and the DLQ an index has that order. (The
-- joins are LEFT so that the planner can leave them out where the queue's name is not selected.)
CREATE VIEW {schema}.running_jobs AS
    SELECT j.id, q.name AS queue, j.queue_id, j.type, 'running'::{schema}.job_status AS status, j.priority, j.payload, j.tags,
           j.retry_count, j.max_retries, j.crashes, l.token, j.run_at, j.created_at, l.started_at,
           NULL::timestamptz AS finished_at, l.started_at AS updated_at, j.error, NULL::text AS result,
           (SELECT a.signature FROM {schema}.job_attempts a WHERE a.job_id = j.id ORDER BY a.token DESC LIMIT 1) AS signature,
           (SELECT a.kind FROM {schema}.job_attempts a WHERE a.job_id = j.id ORDER BY a.token DESC LIMIT 1) AS kind,
           l.progress, l.message, l.worker, l.expires_at, l.cancel, NULL::timestamptz AS trashed_at,
           j.ordering_key, j.unique_key, j.losses
      FROM {schema}.leases l JOIN {schema}.jobs j ON j.id = l.id LEFT JOIN {schema}.queues q ON q.id = j.queue_id;

CREATE VIEW {schema}.waiting_jobs AS
    SELECT j.id, q.name AS queue, j.queue_id, j.type, j.status, j.priority, j.payload, j.tags,
           j.retry_count, j.max_retries, j.crashes, j.last_token AS token, j.run_at, j.created_at,
           NULL::timestamptz AS started_at, NULL::timestamptz AS finished_at, j.updated_at, j.error, NULL::text AS result,
           (SELECT a.signature FROM {schema}.job_attempts a WHERE a.job_id = j.id ORDER BY a.token DESC LIMIT 1) AS signature,
           (SELECT a.kind FROM {schema}.job_attempts a WHERE a.job_id = j.id ORDER BY a.token DESC LIMIT 1) AS kind,
           0::smallint AS progress, '' AS message, NULL::text AS worker, NULL::timestamptz AS expires_at, false AS cancel,
           NULL::timestamptz AS trashed_at, j.ordering_key, j.unique_key, j.losses
      FROM {schema}.jobs j LEFT JOIN {schema}.queues q ON q.id = j.queue_id
     WHERE NOT EXISTS (SELECT FROM {schema}.leases l WHERE l.id = j.id);

CREATE VIEW {schema}.dead_jobs AS
    SELECT d.id, q.name AS queue, d.queue_id, d.type, 'dead'::{schema}.job_status AS status, d.priority, d.payload, d.tags,
           d.retry_count, d.max_retries, d.crashes, d.last_token AS token, d.run_at, d.created_at, d.started_at,
           d.died_at AS finished_at, d.died_at AS updated_at, d.error, NULL::text AS result, d.signature, d.kind,
           d.progress, d.message, d.worker, NULL::timestamptz AS expires_at, false AS cancel, NULL::timestamptz AS trashed_at,
           d.ordering_key, d.unique_key, d.losses
      FROM {schema}.jobs_dead d LEFT JOIN {schema}.queues q ON q.id = d.queue_id
     WHERE d.trashed_at IS NULL;

CREATE VIEW {schema}.trashed_jobs AS
    SELECT d.id, q.name AS queue, d.queue_id, d.type, 'dead'::{schema}.job_status AS status, d.priority, d.payload, d.tags,
           d.retry_count, d.max_retries, d.crashes, d.last_token AS token, d.run_at, d.created_at, d.started_at,
           d.died_at AS finished_at, d.trashed_at AS updated_at, d.error, NULL::text AS result, d.signature, d.kind,
           d.progress, d.message, d.worker, NULL::timestamptz AS expires_at, false AS cancel, d.trashed_at,
           d.ordering_key, d.unique_key, d.losses
      FROM {schema}.jobs_dead d LEFT JOIN {schema}.queues q ON q.id = d.queue_id
     WHERE d.trashed_at IS NOT NULL;

CREATE VIEW {schema}.finished_jobs AS
    SELECT h.id, q.name AS queue, h.queue_id, h.type, h.status, h.priority, h.payload, h.tags,
           h.retry_count, h.max_retries, h.crashes, h.last_token AS token, h.run_at, h.created_at, h.started_at,
           h.finished_at, h.finished_at AS updated_at, h.error, h.result,
           (SELECT a.signature FROM {schema}.job_attempts a WHERE a.job_id = h.id ORDER BY a.token DESC LIMIT 1) AS signature,
           (SELECT a.kind FROM {schema}.job_attempts a WHERE a.job_id = h.id ORDER BY a.token DESC LIMIT 1) AS kind,
           CASE WHEN h.status = 'completed' THEN 100 ELSE 0 END::smallint AS progress, '' AS message, h.worker,
           NULL::timestamptz AS expires_at, false AS cancel, NULL::timestamptz AS trashed_at, h.ordering_key, h.unique_key, h.losses
      FROM {schema}.job_history h LEFT JOIN {schema}.queues q ON q.id = h.queue_id;

CREATE VIEW {schema}.all_jobs AS
    SELECT * FROM {schema}.running_jobs
    UNION ALL SELECT * FROM {schema}.waiting_jobs
    UNION ALL SELECT * FROM {schema}.dead_jobs
    UNION ALL SELECT * FROM {schema}.trashed_jobs
    UNION ALL SELECT * FROM {schema}.finished_jobs;

-- Whether the value at a path of a payload is equal to, contains, is less or is greater than a filter's value; what is not
-- there, is no scalar, or is in a text that is no JSON, matches nothing. `number` is the value where it reads as one.
CREATE FUNCTION {schema}.payload_matches(payload text, path text[], operator text, value text, number numeric)
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

-- Unique keys, ordering keys, limits, concurrency, rates and aging.

-- An ordering key in use. Nothing but a lock: a transaction that releases a key, or adds a waiting job, locks its row and then, in a
-- new statement, admits the next jobs. So the last to do so has seen what all others did.
CREATE TABLE {schema}.ordering_locks (
    queue_id int NOT NULL,
    key text NOT NULL,
    -- Up to which position in the order of arrival the key has no admitted and no waiting job; 0 = not known. Kept for keys whose
    -- next jobs took long to find, among many that had ended.
    low_watermark bigint NOT NULL DEFAULT 0,
    CONSTRAINT ordering_locks_pkey PRIMARY KEY (queue_id, key)
) WITH (fillfactor = 70);

-- Ordering keys that were released while an open transaction had them locked: the leader admits the next jobs.
CREATE TABLE {schema}.ordering_pending (
    queue_id int NOT NULL,
    key text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000);

-- The job that holds a unique key, and until when; `infinity`: for as long as that job is among the unfinished ones.
CREATE TABLE {schema}.unique_keys (
    queue_id int NOT NULL,
    key text NOT NULL,
    job_id uuid NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT unique_keys_pkey PRIMARY KEY (queue_id, key)
) WITH (fillfactor = 70);
CREATE INDEX unique_keys_expires ON {schema}.unique_keys (expires_at) WHERE expires_at < 'infinity';

-- Capacity below a limit, by band of priority ('' = all): never more than is free. Enqueues use it; it is counted again when it does
-- not suffice or is a minute old; what is requeued is stored beside it, so that no settle waits.
CREATE TABLE {schema}.queue_capacity (
    queue_id int NOT NULL,
    band text NOT NULL CONSTRAINT queue_capacity_band_check CHECK (band IN ('', 'high', 'normal', 'low')),
    capacity int NOT NULL,
    free int NOT NULL CONSTRAINT queue_capacity_free_check CHECK (free >= 0),
    counted_at timestamptz NOT NULL,
    CONSTRAINT queue_capacity_pkey PRIMARY KEY (queue_id, band)
) WITH (fillfactor = 50);
CREATE TABLE {schema}.capacity_requeued (
    queue_id int NOT NULL,
    band text NOT NULL,
    n int NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX capacity_requeued_queue ON {schema}.capacity_requeued (queue_id, band);

-- The tokens that a queue's rate has left, as of a time; locked by each claim of a queue with a concurrency or a rate.
CREATE TABLE {schema}.queue_rates (
    queue_id int CONSTRAINT queue_rates_pkey PRIMARY KEY,
    tokens double precision NOT NULL,
    refilled_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- The last arrival in a queue with aging, in microseconds since the epoch; `n` arrived together.
CREATE TABLE {schema}.queue_arrivals (
    queue_id int CONSTRAINT queue_arrivals_pkey PRIMARY KEY,
    last_us bigint NOT NULL,
    n int NOT NULL
) WITH (fillfactor = 50);

CREATE FUNCTION {schema}.priority_band(priority smallint) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN priority >= 10 THEN 'high' WHEN priority >= 5 THEN 'normal' ELSE 'low' END
$$;

-- The rank of a job in a queue with aging: its arrival, in microseconds since 2020, put off by a step for each priority that
-- it is lower. Null without aging.
CREATE FUNCTION {schema}.aged_rank(priority smallint, arrival_us bigint, aging_us bigint) RETURNS bigint LANGUAGE sql IMMUTABLE
PARALLEL SAFE AS $$
    SELECT greatest(0, arrival_us - 1577836800000000) + (127 - priority) * nullif(aging_us, 0)
$$;

-- Schedules, and the ticks of theirs that have passed.

CREATE TABLE {schema}.schedules (
    name text CONSTRAINT schedules_pkey PRIMARY KEY
        CONSTRAINT schedules_name_check CHECK (name <> '' AND length(name) <= 200),
    cron text NOT NULL,
    tz text NOT NULL,
    type text NOT NULL,
    payload text NOT NULL,
    queue text NOT NULL CONSTRAINT schedules_queue_check CHECK (queue <> '' AND length(queue) <= 200),
    priority smallint NOT NULL CONSTRAINT schedules_priority_check CHECK (priority BETWEEN -128 AND 127),
    max_retries int NOT NULL,
    ordering_key text,
    -- when it ticks next; the scheduler that moves it on inserts the job
    next_tick timestamptz NOT NULL,
    paused_at timestamptz,
    last_tick timestamptz,
    last_job uuid,
    announced_at timestamptz NOT NULL DEFAULT now()
);

-- One row a tick, whatever the number of schedulers.
CREATE TABLE {schema}.schedule_ticks (
    schedule text NOT NULL,
    tick timestamptz NOT NULL,
    -- null: it passed without a job
    job_id uuid,
    fired_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT schedule_ticks_pkey PRIMARY KEY (schedule, tick)
);
CREATE INDEX schedule_ticks_tick ON {schema}.schedule_ticks (tick);

-- The lines that handlers write about their jobs, and the schemas of the types that workers announce.

-- No foreign key: a job moves between tables. Lines of a purged job go with it; upkeep forgets those of jobs that went
-- otherwise. Nothing is ever updated.
CREATE TABLE {schema}.job_logs (
    job_id uuid NOT NULL,
    -- the job's count over all attempts
    number int NOT NULL,
    token bigint NOT NULL,
    -- the attempt's own count
    line int NOT NULL,
    at timestamptz NOT NULL,
    text text NOT NULL,
    CONSTRAINT job_logs_pkey PRIMARY KEY (job_id, number)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1);

CREATE TABLE {schema}.task_types (
    type text PRIMARY KEY,
    -- JSON, in the order of the parameters
    schema text NOT NULL,
    announced_at timestamptz NOT NULL DEFAULT now()
);

-- Operations: what operators do, with who did it, why, on which jobs, and what came of it.

CREATE TABLE {schema}.operations (
    number int GENERATED ALWAYS AS IDENTITY CONSTRAINT operations_pkey PRIMARY KEY,
    verb text NOT NULL CONSTRAINT operations_verb_check CHECK (verb <> ''),
    label text NOT NULL,
    author_user text NOT NULL,
    author_host text NOT NULL,
    why text NOT NULL,
    -- how retried or moved jobs go on; a null: as they were
    delay double precision NOT NULL,
    spread double precision NOT NULL,
    queue text CONSTRAINT operations_queue_check CHECK (queue <> '' AND length(queue) <= 200),
    priority smallint CONSTRAINT operations_priority_check CHECK (priority BETWEEN -128 AND 127),
    canary int NOT NULL CONSTRAINT operations_canary_check CHECK (canary >= 0),
    rate double precision CONSTRAINT operations_rate_check CHECK (rate > 0),
    stop_percent double precision CONSTRAINT operations_stop_check CHECK (stop_percent BETWEEN 0 AND 100),
    signatures text[] NOT NULL,
    state text NOT NULL DEFAULT 'preparing' CONSTRAINT operations_state_check
        CHECK (state IN ('preparing', 'running', 'paused', 'stopped', 'done', 'cancelled', 'failed')),
    note text NOT NULL DEFAULT '',
    total int NOT NULL DEFAULT 0,
    done int NOT NULL DEFAULT 0,
    processed int NOT NULL DEFAULT 0,
    skipped int NOT NULL DEFAULT 0,
    errored int NOT NULL DEFAULT 0,
    barrier int NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at timestamptz,
    finished_at timestamptz,
    -- no step before this, by its rate
    next_at timestamptz NOT NULL DEFAULT '-infinity',
    CONSTRAINT operations_counts_check CHECK (
        done = processed + skipped + errored AND least(processed, skipped, errored) >= 0
        AND done <= barrier AND barrier <= total),
    CONSTRAINT operations_preparing_check CHECK (state <> 'preparing' OR barrier = 0 AND started_at IS NULL),
    CONSTRAINT operations_started_check CHECK (state NOT IN ('running', 'paused', 'stopped', 'done') OR started_at IS NOT NULL),
    CONSTRAINT operations_finished_check CHECK ((finished_at IS NOT NULL) = (state IN ('done', 'cancelled', 'failed')))
) WITH (fillfactor = 50);
CREATE INDEX operations_unfinished ON {schema}.operations (number) WHERE finished_at IS NULL;
CREATE INDEX operations_ended ON {schema}.operations (updated_at) WHERE finished_at IS NOT NULL;
CREATE INDEX operations_signatures ON {schema}.operations USING gin (signatures);

-- The jobs that an operation was asked for, as they were then. No foreign key: they go in batches, before their operation.
CREATE TABLE {schema}.operation_members (
    operation int NOT NULL,
    -- 1, 2, 3, without a gap
    position int NOT NULL,
    -- a text, for what was requested need be no id of a job
    job_id text COLLATE "C" NOT NULL,
    -- null: there was no such job
    token bigint,
    queue text NOT NULL,
    -- the operation has changed it
    changed boolean NOT NULL DEFAULT false,
    CONSTRAINT operation_members_pkey PRIMARY KEY (operation, position),
    -- Also how the operations of a job are found.
    CONSTRAINT operation_members_job_key UNIQUE (job_id, operation),
    CONSTRAINT operation_members_position_check CHECK (position > 0)
) WITH (fillfactor = 90);
CREATE INDEX operation_members_changed ON {schema}.operation_members (operation, position) WHERE changed;
