-- Operations: what operators do, with who did it, why, on which jobs, and what came of it.

CREATE TABLE operations (
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
CREATE INDEX operations_unfinished ON operations (number) WHERE finished_at IS NULL;
CREATE INDEX operations_ended ON operations (updated_at) WHERE finished_at IS NOT NULL;
CREATE INDEX operations_signatures ON operations USING gin (signatures);

-- The jobs that an operation was asked for, as they were then. No foreign key: they go in batches, before their operation.
CREATE TABLE operation_members (
    operation int NOT NULL,
    -- 1, 2, 3 … without a gap
    place int NOT NULL,
    -- a text, for what somebody asked for need be no id of a job
    job_id text COLLATE "C" NOT NULL,
    -- null: there was no such job
    token bigint,
    queue text NOT NULL,
    -- the operation has changed it
    changed boolean NOT NULL DEFAULT false,
    CONSTRAINT operation_members_pkey PRIMARY KEY (operation, place),
    -- Also how the operations of a job are found.
    CONSTRAINT operation_members_job_key UNIQUE (job_id, operation),
    CONSTRAINT operation_members_place_check CHECK (place > 0)
) WITH (fillfactor = 90);
CREATE INDEX operation_members_changed ON operation_members (operation, place) WHERE changed;

-- A job that was moved to another queue while it was to be retried waits for its ordering key when it is due.
ALTER TABLE jobs DROP CONSTRAINT jobs_ready_check;
ALTER TABLE jobs ADD CONSTRAINT jobs_ready_check CHECK (
    status = 'queued' AND rank IS NOT NULL AND rank = coalesce(place, (127 - priority)::bigint << 45 | seq)
        AND holds = (ordering_key IS NOT NULL)
    OR status = 'queued' AND rank IS NULL AND ordering_key IS NOT NULL AND NOT holds
    OR status IN ('scheduled', 'retrying') AND rank IS NULL AND (NOT holds OR ordering_key IS NOT NULL)
);
