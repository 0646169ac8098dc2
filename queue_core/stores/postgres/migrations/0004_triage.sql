-- What triage keeps.

-- How carefully operations go on.
ALTER TABLE {schema}.operations
    -- an attempt of a canary that fails counts as if its job had died
    ADD COLUMN first_failure boolean NOT NULL DEFAULT false,
    -- members of its first steps; empty: there is only the canary, if any
    ADD COLUMN ramp int[] NOT NULL DEFAULT '{}',
    -- no step before this
    ADD COLUMN begin_at timestamptz,
    -- no step before a live worker announces this release; null: it waits for none
    ADD COLUMN when_release text CONSTRAINT operations_release_check CHECK (when_release <> '' AND length(when_release) <= 200),
    -- what became of the jobs that it has retried, as the leader last counted; null: not counted yet
    ADD COLUMN outcomes int[] CONSTRAINT operations_outcomes_check CHECK (cardinality(outcomes) = 6),
    -- nothing more becomes known of them
    ADD COLUMN counted boolean NOT NULL DEFAULT true;
CREATE INDEX operations_uncounted ON {schema}.operations (number) WHERE NOT counted;

-- Closed: it takes no new jobs.
ALTER TABLE {schema}.queues ADD COLUMN closed_at timestamptz;

-- Stacks of running jobs: asked for, and as their workers have answered. The last of each job, and the last of all.
CREATE TABLE {schema}.job_stacks (
    number int GENERATED ALWAYS AS IDENTITY CONSTRAINT job_stacks_pkey PRIMARY KEY,
    job_id uuid NOT NULL,
    worker text NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- null: the worker has not answered
    taken_at timestamptz,
    -- a JSON object
    stack text,
    CONSTRAINT job_stacks_taken_check CHECK ((taken_at IS NULL) = (stack IS NULL))
);
CREATE INDEX job_stacks_job ON {schema}.job_stacks (job_id, number);
CREATE INDEX job_stacks_asked ON {schema}.job_stacks (worker) WHERE taken_at IS NULL;

-- Releases of programs, as numbers in the rows: of workers, of running jobs, of the attempts that failed, of jobs that ended.

CREATE TABLE {schema}.releases (
    id int GENERATED ALWAYS AS IDENTITY CONSTRAINT releases_pkey PRIMARY KEY,
    name text NOT NULL CONSTRAINT releases_name_key UNIQUE CONSTRAINT releases_name_check CHECK (name <> '' AND length(name) <= 64),
    -- Its order among all: a new one comes last, or before the first greater version, and those behind it move on.
    place int NOT NULL,
    first_seen timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

-- 0 = unknown. A claim writes its worker's release into the lease, and whatever ends the attempt passes it on.
ALTER TABLE {schema}.workers ADD COLUMN release int NOT NULL DEFAULT 0;
ALTER TABLE {schema}.leases ADD COLUMN release int NOT NULL DEFAULT 0;
ALTER TABLE {schema}.job_attempts ADD COLUMN release int NOT NULL DEFAULT 0;
ALTER TABLE {schema}.jobs_dead ADD COLUMN release int NOT NULL DEFAULT 0;
ALTER TABLE {schema}.job_history ADD COLUMN release int NOT NULL DEFAULT 0;
ALTER TABLE {schema}.tally_deltas ADD COLUMN release int NOT NULL DEFAULT 0;
-- of deaths: the latest begin of the attempts that ended so
ALTER TABLE {schema}.tally_deltas ADD COLUMN started_at timestamptz;

-- Folded from them: the deaths of each error by release, and what became of the jobs of each type. 0 = unknown.
CREATE TABLE {schema}.signature_releases (
    signature text NOT NULL,
    release int NOT NULL,
    n bigint NOT NULL,
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    last_started timestamptz,
    CONSTRAINT signature_releases_pkey PRIMARY KEY (signature, release)
) WITH (fillfactor = 50);
CREATE TABLE {schema}.type_releases (
    type text NOT NULL,
    release int NOT NULL,
    completed bigint NOT NULL,
    dead bigint NOT NULL,
    -- when the last one completed
    last_at timestamptz,
    CONSTRAINT type_releases_pkey PRIMARY KEY (type, release)
) WITH (fillfactor = 50);

-- What operators have set of an error: its state, owner, note and link with their last changes, as JSON
-- (queue_core.model.triage.signatures). Only those that were touched.
CREATE TABLE {schema}.signature_states (
    signature text CONSTRAINT signature_states_pkey PRIMARY KEY,
    -- the operation that changed it last
    changed_by int NOT NULL,
    facts text NOT NULL
);

CREATE OR REPLACE VIEW {schema}.running_jobs AS
    SELECT j.id, q.name AS queue, j.queue_id, j.type, 'running'::{schema}.job_status AS status, j.priority, j.payload, j.tags,
           j.retry_count, j.max_retries, j.crashes, l.token, j.run_at, j.created_at, l.started_at,
           NULL::timestamptz AS finished_at, l.started_at AS updated_at, j.error, NULL::text AS result,
           (SELECT a.signature FROM {schema}.job_attempts a WHERE a.job_id = j.id ORDER BY a.token DESC LIMIT 1) AS signature,
           (SELECT a.kind FROM {schema}.job_attempts a WHERE a.job_id = j.id ORDER BY a.token DESC LIMIT 1) AS kind,
           l.progress, l.message, l.worker, l.expires_at, l.cancel, NULL::timestamptz AS trashed_at,
           j.ordering_key, j.unique_key, j.losses, j.headers, l.release
      FROM {schema}.leases l JOIN {schema}.jobs j ON j.id = l.id LEFT JOIN {schema}.queues q ON q.id = j.queue_id;

CREATE OR REPLACE VIEW {schema}.waiting_jobs AS
    SELECT j.id, q.name AS queue, j.queue_id, j.type, j.status, j.priority, j.payload, j.tags,
           j.retry_count, j.max_retries, j.crashes, j.last_token AS token, j.run_at, j.created_at,
           NULL::timestamptz AS started_at, NULL::timestamptz AS finished_at, j.updated_at, j.error, NULL::text AS result,
           (SELECT a.signature FROM {schema}.job_attempts a WHERE a.job_id = j.id ORDER BY a.token DESC LIMIT 1) AS signature,
           (SELECT a.kind FROM {schema}.job_attempts a WHERE a.job_id = j.id ORDER BY a.token DESC LIMIT 1) AS kind,
           0::smallint AS progress, '' AS message, NULL::text AS worker, NULL::timestamptz AS expires_at, false AS cancel,
           NULL::timestamptz AS trashed_at, j.ordering_key, j.unique_key, j.losses, j.headers, 0 AS release
      FROM {schema}.jobs j LEFT JOIN {schema}.queues q ON q.id = j.queue_id
     WHERE NOT EXISTS (SELECT FROM {schema}.leases l WHERE l.id = j.id);

CREATE OR REPLACE VIEW {schema}.dead_jobs AS
    SELECT d.id, q.name AS queue, d.queue_id, d.type, 'dead'::{schema}.job_status AS status, d.priority, d.payload, d.tags,
           d.retry_count, d.max_retries, d.crashes, d.last_token AS token, d.run_at, d.created_at, d.started_at,
           d.died_at AS finished_at, d.died_at AS updated_at, d.error, NULL::text AS result, d.signature, d.kind,
           d.progress, d.message, d.worker, NULL::timestamptz AS expires_at, false AS cancel, NULL::timestamptz AS trashed_at,
           d.ordering_key, d.unique_key, d.losses, d.headers, d.release
      FROM {schema}.jobs_dead d LEFT JOIN {schema}.queues q ON q.id = d.queue_id
     WHERE d.trashed_at IS NULL;

CREATE OR REPLACE VIEW {schema}.trashed_jobs AS
    SELECT d.id, q.name AS queue, d.queue_id, d.type, 'dead'::{schema}.job_status AS status, d.priority, d.payload, d.tags,
           d.retry_count, d.max_retries, d.crashes, d.last_token AS token, d.run_at, d.created_at, d.started_at,
           d.died_at AS finished_at, d.trashed_at AS updated_at, d.error, NULL::text AS result, d.signature, d.kind,
           d.progress, d.message, d.worker, NULL::timestamptz AS expires_at, false AS cancel, d.trashed_at,
           d.ordering_key, d.unique_key, d.losses, d.headers, d.release
      FROM {schema}.jobs_dead d LEFT JOIN {schema}.queues q ON q.id = d.queue_id
     WHERE d.trashed_at IS NOT NULL;

CREATE OR REPLACE VIEW {schema}.finished_jobs AS
    SELECT h.id, q.name AS queue, h.queue_id, h.type, h.status, h.priority, h.payload, h.tags,
           h.retry_count, h.max_retries, h.crashes, h.last_token AS token, h.run_at, h.created_at, h.started_at,
           h.finished_at, h.finished_at AS updated_at, h.error, h.result,
           (SELECT a.signature FROM {schema}.job_attempts a WHERE a.job_id = h.id ORDER BY a.token DESC LIMIT 1) AS signature,
           (SELECT a.kind FROM {schema}.job_attempts a WHERE a.job_id = h.id ORDER BY a.token DESC LIMIT 1) AS kind,
           CASE WHEN h.status = 'completed' THEN 100 ELSE 0 END::smallint AS progress, '' AS message, h.worker,
           NULL::timestamptz AS expires_at, false AS cancel, NULL::timestamptz AS trashed_at, h.ordering_key, h.unique_key, h.losses, h.headers, h.release
      FROM {schema}.job_history h LEFT JOIN {schema}.queues q ON q.id = h.queue_id;

CREATE OR REPLACE VIEW {schema}.all_jobs AS
    SELECT * FROM {schema}.running_jobs
    UNION ALL SELECT * FROM {schema}.waiting_jobs
    UNION ALL SELECT * FROM {schema}.dead_jobs
    UNION ALL SELECT * FROM {schema}.trashed_jobs
    UNION ALL SELECT * FROM {schema}.finished_jobs;
