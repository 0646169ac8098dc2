-- Queues, jobs in every state, attempts, workers, totals, and what processes tell each other.

CREATE TABLE queues (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL CONSTRAINT queues_name_key UNIQUE CONSTRAINT queues_name_check CHECK (length(name) BETWEEN 1 AND 200),
    paused_at REAL,
    -- Grows when jobs become ready here: a hint for processes that did not do it themselves.
    arrived INTEGER NOT NULL DEFAULT 0
) STRICT;

-- A job is one narrow row from its arrival to its end, changed in place. Texts of any size that never change stand apart
-- (payloads, attempts), so that a change of state does not write them again. Times are seconds since the epoch.
CREATE TABLE jobs (
    -- the order of its arrival; never used again
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL CONSTRAINT jobs_id_key UNIQUE,
    queue_id INTEGER NOT NULL,
    type TEXT NOT NULL,
    -- its status; a dead job in the trash has a place of its own
    place TEXT NOT NULL CONSTRAINT jobs_place_check CHECK (
        place IN ('scheduled', 'queued', 'running', 'retrying', 'completed', 'cancelled', 'dead', 'trashed')),
    priority INTEGER NOT NULL CONSTRAINT jobs_priority_check CHECK (priority BETWEEN -128 AND 127),
    -- its turn among those of its priority: the number, and a new one when an operator retries it
    seq INTEGER NOT NULL,
    -- (127 - priority) << 45 | seq; null = not ready
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
    result TEXT,
    -- of the last failed attempt
    error TEXT,
    signature TEXT,
    kind TEXT,
    CONSTRAINT jobs_ready_check CHECK (
        (place = 'queued') = (rank IS NOT NULL) AND coalesce(rank = ((127 - priority) << 45 | seq), true)),
    CONSTRAINT jobs_running_check CHECK ((place = 'running') = (expires_at IS NOT NULL) AND (cancel = 0 OR place = 'running')),
    CONSTRAINT jobs_finished_check CHECK (
        (place IN ('completed', 'cancelled', 'dead', 'trashed')) = (finished_at IS NOT NULL)
        AND (place = 'trashed') = (trashed_at IS NOT NULL))
) STRICT;

-- The claim's index: ready jobs only, a type at a time, so that neither history nor a backlog of types that this worker does
-- not have slows it.
CREATE INDEX jobs_ready ON jobs (queue_id, type, rank) WHERE rank IS NOT NULL;
CREATE INDEX jobs_due ON jobs (run_at, seq, queue_id, place) WHERE place IN ('scheduled', 'retrying');
-- Lists in the order of the last change, a place at a time; also the running jobs, and what is over its retention.
CREATE INDEX jobs_listed ON jobs (place, updated_at);
-- Covers what groups and counts of the DLQ read.
CREATE INDEX jobs_dead ON jobs (place, signature, updated_at, queue_id, type) WHERE place IN ('dead', 'trashed');
CREATE INDEX jobs_unwanted ON jobs (worker) WHERE cancel = 1;

CREATE TABLE payloads (
    number INTEGER PRIMARY KEY,
    payload TEXT NOT NULL
) STRICT;

CREATE TABLE attempts (
    job INTEGER NOT NULL,
    token INTEGER NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    exception TEXT NOT NULL,
    message TEXT NOT NULL,
    traceback TEXT NOT NULL,
    signature TEXT NOT NULL,
    worker TEXT,
    started_at REAL,
    finished_at REAL NOT NULL,
    PRIMARY KEY (job, token)
) STRICT;

-- How workers ended the attempts before a job's last one, to say yes again to an outcome whose answer got lost.
CREATE TABLE endings (
    job INTEGER NOT NULL,
    token INTEGER NOT NULL,
    kind TEXT NOT NULL,
    PRIMARY KEY (job, token)
) STRICT, WITHOUT ROWID;

CREATE TABLE error_signatures (
    signature TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    exception TEXT NOT NULL,
    first_seen REAL NOT NULL
) STRICT;

-- The last number given out as arrival and as lease token. Tokens up to the ceiling may have been given out by a commit that
-- a loss of power took back: whoever opens the file goes on behind it, and raises it with a commit that is on the disk.
CREATE TABLE counters (
    one INTEGER PRIMARY KEY CONSTRAINT counters_one_check CHECK (one = 1),
    seq INTEGER NOT NULL,
    token INTEGER NOT NULL,
    token_ceiling INTEGER NOT NULL,
    CONSTRAINT counters_token_check CHECK (token <= token_ceiling)
) STRICT;
INSERT INTO counters VALUES (1, 0, 0, 0);

-- The machine's two clocks as they were read together, to tell time that passed from a clock that was set.
CREATE TABLE clocks (
    one INTEGER PRIMARY KEY CONSTRAINT clocks_one_check CHECK (one = 1),
    wall REAL NOT NULL,
    steady REAL NOT NULL,
    -- the start of the machine that the steady clock belongs to
    machine TEXT NOT NULL
) STRICT;
INSERT INTO clocks VALUES (1, 0.0, 0.0, '');

CREATE TABLE workers (
    id TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    version TEXT NOT NULL,
    -- JSON arrays
    queues TEXT NOT NULL,
    types TEXT NOT NULL,
    concurrency INTEGER NOT NULL,
    busy INTEGER NOT NULL,
    quiet INTEGER NOT NULL,
    command TEXT NOT NULL DEFAULT '' CONSTRAINT workers_command_check CHECK (command IN ('', 'quiet', 'resume', 'stop')),
    interval_s REAL NOT NULL,
    started_at REAL NOT NULL,
    heartbeat_at REAL NOT NULL
) STRICT;

CREATE TABLE leaders (
    duty TEXT PRIMARY KEY,
    worker TEXT NOT NULL,
    expires_at REAL NOT NULL
) STRICT;

-- Totals, counted in the transaction that they count. Bucket numbers are indexes into the histogram's bounds; -1 = not measured.
CREATE TABLE tallies (
    queue_id INTEGER NOT NULL,
    type TEXT NOT NULL,
    outcome TEXT NOT NULL,
    wait_bucket INTEGER NOT NULL,
    run_bucket INTEGER NOT NULL,
    n INTEGER NOT NULL,
    wait_us INTEGER NOT NULL,
    run_us INTEGER NOT NULL,
    PRIMARY KEY (queue_id, type, outcome, wait_bucket, run_bucket)
) STRICT, WITHOUT ROWID;

-- What happened in each minute (since the epoch), and which errors killed jobs in it.
CREATE TABLE minutes (
    minute INTEGER NOT NULL,
    queue_id INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (minute, queue_id, outcome)
) STRICT, WITHOUT ROWID;

CREATE TABLE signature_minutes (
    minute INTEGER NOT NULL,
    signature TEXT NOT NULL,
    queue_id INTEGER NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (minute, signature, queue_id)
) STRICT, WITHOUT ROWID;

-- Events for other processes, a few moments long, and who listens: without listeners nobody writes any.
CREATE TABLE messages (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    sender TEXT NOT NULL,
    body TEXT NOT NULL,
    sent_at REAL NOT NULL
) STRICT;

CREATE TABLE listeners (
    id TEXT PRIMARY KEY,
    expires_at REAL NOT NULL
) STRICT;

-- For a person with the sqlite3 program: every job with its queue, its payload and its times as one reads them.
CREATE VIEW job_list AS
    SELECT j.id, q.name AS queue, j.type, CASE j.place WHEN 'trashed' THEN 'dead' ELSE j.place END AS status, j.priority,
           j.retry_count, j.max_retries, j.crashes, j.worker, j.progress, j.error, p.payload, j.result,
           datetime(j.created_at, 'unixepoch') AS created_at, datetime(j.run_at, 'unixepoch') AS run_at,
           datetime(j.started_at, 'unixepoch') AS started_at, datetime(j.finished_at, 'unixepoch') AS finished_at,
           datetime(j.updated_at, 'unixepoch') AS updated_at, j.place = 'trashed' AS trashed
      FROM jobs j CROSS JOIN queues q ON q.number = j.queue_id CROSS JOIN payloads p ON p.number = j.number;
