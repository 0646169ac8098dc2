-- The rules of queues: ordering keys, unique keys, limits, concurrency, rates and aging. What a table is checked for cannot
-- be changed in place, so the jobs move into a new one.

-- 1: the next four are kept, which begins when a rule first asks for them and does not end.
ALTER TABLE queues ADD COLUMN counted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queues ADD COLUMN running INTEGER NOT NULL DEFAULT 0;
-- Waiting jobs by band of priority.
ALTER TABLE queues ADD COLUMN high INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queues ADD COLUMN normal INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queues ADD COLUMN low INTEGER NOT NULL DEFAULT 0;
-- Starts that its rate allowed at a time; null = as many as it ever does.
ALTER TABLE queues ADD COLUMN tokens REAL;
ALTER TABLE queues ADD COLUMN refilled_at REAL NOT NULL DEFAULT 0.0;
-- The last arrival in microseconds since the epoch, where aging counts from it.
ALTER TABLE queues ADD COLUMN arrival_us INTEGER NOT NULL DEFAULT 0;

DROP VIEW job_list;
ALTER TABLE jobs RENAME TO jobs_before;

-- A job is one narrow row from its arrival to its end, changed in place. Texts of any size that never change stand apart
-- (payloads, attempts), so that a change of state does not write them again. Times are seconds since the epoch. No check
-- has an IN: SQLite builds its list anew for each row, which took as long as all the rest of an insert or update.
CREATE TABLE jobs (
    -- the order of its arrival; never used again
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL CONSTRAINT jobs_id_key UNIQUE,
    queue_id INTEGER NOT NULL,
    type TEXT NOT NULL,
    -- its status; a dead job in the trash has a place of its own
    place TEXT NOT NULL CONSTRAINT jobs_place_check CHECK (
        place = 'queued' OR place = 'running' OR place = 'completed' OR place = 'scheduled' OR place = 'retrying'
        OR place = 'dead' OR place = 'cancelled' OR place = 'trashed'),
    priority INTEGER NOT NULL CONSTRAINT jobs_priority_check CHECK (priority BETWEEN -128 AND 127),
    -- its turn among those of its priority: the number, and a new one when an operator retries it
    seq INTEGER NOT NULL,
    -- its order in a queue with aging, from its arrival to its end; null = (127 - priority) << 45 | seq
    aged INTEGER,
    -- that order; null = not ready
    rank INTEGER,
    run_at REAL NOT NULL,
    retry_count INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    max_retries INTEGER NOT NULL,
    -- a JSON array; null = none
    tags TEXT,
    created_at REAL NOT NULL,
    -- the last change, by which lists are ordered
    updated_at REAL NOT NULL,
    -- the last lease token that was given out, and how its worker ended that attempt (null: not yet, or it was lost)
    token INTEGER NOT NULL DEFAULT 0,
    ended TEXT,
    -- of the attempt that runs, or of the last one of a finished job
    worker TEXT,
    started_at REAL,
    progress INTEGER NOT NULL DEFAULT 0 CONSTRAINT jobs_progress_check CHECK (progress BETWEEN 0 AND 100),
    message TEXT NOT NULL DEFAULT '',
    -- the end of the lease; exactly while it runs
    expires_at REAL,
    cancel INTEGER NOT NULL DEFAULT 0,
    -- 0: claimed ahead, waiting in its worker for a slot
    begun INTEGER NOT NULL DEFAULT 1,
    -- exactly in final states
    finished_at REAL,
    trashed_at REAL,
    ordering_key TEXT,
    -- 1: it was let through by its ordering key and has not let go of it; 0: it waits for its turn, not ready
    holds INTEGER CONSTRAINT jobs_holds_check CHECK (
        holds IS NULL OR holds IN (0, 1) AND ordering_key IS NOT NULL),
    unique_key TEXT,
    -- null: it holds its unique key while it is unfinished
    unique_seconds REAL,
    result TEXT,
    -- of the last failed attempt
    error TEXT,
    signature TEXT,
    kind TEXT,
    CONSTRAINT jobs_ready_check CHECK (
        (place = 'queued') = (rank IS NOT NULL OR holds IS 0) AND (rank IS NULL OR holds IS NOT 0)
        AND coalesce(rank = coalesce(aged, (127 - priority) << 45 | seq), true)),
    CONSTRAINT jobs_key_check CHECK (
        ordering_key IS NULL OR place = 'scheduled' OR place = 'running' OR place = 'dead'
        OR (holds IS NOT NULL) = (place = 'queued' OR place = 'retrying')),
    CONSTRAINT jobs_running_check CHECK ((place = 'running') = (expires_at IS NOT NULL) AND (cancel = 0 OR place = 'running')),
    CONSTRAINT jobs_finished_check CHECK (
        (place = 'completed' OR place = 'dead' OR place = 'cancelled' OR place = 'trashed') = (finished_at IS NOT NULL)
        AND (place = 'trashed') = (trashed_at IS NOT NULL))
) STRICT;

INSERT INTO jobs (
       number, id, queue_id, type, place, priority, seq, rank, run_at, retry_count, crashes, max_retries, tags,
       created_at, updated_at, token, ended, worker, started_at, progress, message, expires_at, cancel, begun,
       finished_at, trashed_at, result, error, signature, kind)
SELECT number, id, queue_id, type, place, priority, seq, rank, run_at, retry_count, crashes, max_retries, tags,
       created_at, updated_at, token, ended, worker, started_at, progress, message, expires_at, cancel, begun,
       finished_at, trashed_at, result, error, signature, kind
  FROM jobs_before;
DROP TABLE jobs_before;

-- The claim's index: ready jobs only, a type at a time, so that neither history nor a backlog of types that this worker does
-- not have slows it.
CREATE INDEX jobs_ready ON jobs (queue_id, type, rank) WHERE rank IS NOT NULL;
CREATE INDEX jobs_due ON jobs (run_at, seq, queue_id, place) WHERE place IN ('scheduled', 'retrying');
-- Lists in the order of the last change, a place at a time; also the running jobs, and what is over its retention.
CREATE INDEX jobs_listed ON jobs (place, updated_at);
-- Covers what groups and counts of the DLQ read.
CREATE INDEX jobs_dead ON jobs (place, signature, updated_at, queue_id, type) WHERE place IN ('dead', 'trashed');
CREATE INDEX jobs_unwanted ON jobs (worker) WHERE cancel = 1;
-- Who was let through by an ordering key, and who waits for it in which order; covers what an overview reads of them.
CREATE INDEX jobs_gate ON jobs (queue_id, ordering_key, holds, seq, type, priority, run_at) WHERE holds IS NOT NULL;
-- Covers what an overview reads of ready jobs whose rank does not tell their priority.
CREATE INDEX jobs_aged ON jobs (queue_id, type, rank, priority, run_at, aged) WHERE aged IS NOT NULL AND rank IS NOT NULL;

-- Who holds a unique key: the job itself may be gone, and goes on holding it until its time.
CREATE TABLE unique_keys (
    queue_id INTEGER NOT NULL,
    unique_key TEXT NOT NULL,
    job INTEGER NOT NULL,
    id TEXT NOT NULL,
    -- null = while the job is unfinished
    until REAL,
    PRIMARY KEY (queue_id, unique_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX unique_keys_until ON unique_keys (until) WHERE until IS NOT NULL;

-- For a person with the sqlite3 program: every job with its queue, its payload and its times as one reads them.
CREATE VIEW job_list AS
    SELECT j.id, q.name AS queue, j.type, CASE j.place WHEN 'trashed' THEN 'dead' ELSE j.place END AS status, j.priority,
           j.ordering_key, j.unique_key, j.retry_count, j.max_retries, j.crashes, j.worker, j.progress, j.error, p.payload,
           j.result,
           datetime(j.created_at, 'unixepoch') AS created_at, datetime(j.run_at, 'unixepoch') AS run_at,
           datetime(j.started_at, 'unixepoch') AS started_at, datetime(j.finished_at, 'unixepoch') AS finished_at,
           datetime(j.updated_at, 'unixepoch') AS updated_at, j.place = 'trashed' AS trashed
      FROM jobs j CROSS JOIN queues q ON q.number = j.queue_id CROSS JOIN payloads p ON p.number = j.number;
