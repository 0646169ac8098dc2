-- Everything that the store keeps. Version 1 had the same under other names (migrate/rename in sql/migrate.sql).

-- Queues, jobs in every state, attempts, workers, totals, and messages between processes.

CREATE TABLE queues (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL CONSTRAINT queues_name_key UNIQUE CONSTRAINT queues_name_check CHECK (length(name) BETWEEN 1 AND 200),
    paused_at REAL,
    -- Grows when jobs become ready here: a hint for processes that did not do it themselves.
    ready_total INTEGER NOT NULL DEFAULT 0,
    -- 1: the next four are kept, which begins when a rule first needs them and does not end.
    keeps_counts INTEGER NOT NULL DEFAULT 0,
    running INTEGER NOT NULL DEFAULT 0,
    -- Waiting jobs by band of priority.
    high INTEGER NOT NULL DEFAULT 0,
    normal INTEGER NOT NULL DEFAULT 0,
    low INTEGER NOT NULL DEFAULT 0,
    -- Tokens that its rate had left at a time; null = all.
    tokens REAL,
    refilled_at REAL NOT NULL DEFAULT 0.0,
    -- The last arrival in microseconds since the epoch, where aging counts from it.
    arrival_us INTEGER NOT NULL DEFAULT 0
) STRICT;

-- A job is one narrow row from its arrival to its end, changed in place. Texts of any size that never change have tables
-- of their own (payloads, job_attempts), so that a change of state does not write them again. Times are seconds since the epoch. No check
-- has an IN: SQLite builds its list again for each row, which took as long as all the rest of an insert or update.
CREATE TABLE jobs (
    -- the order of its arrival; never used again
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL CONSTRAINT jobs_id_key UNIQUE,
    queue_id INTEGER NOT NULL,
    type TEXT NOT NULL,
    -- its status; a dead job in the trash has a state of its own
    state TEXT NOT NULL CONSTRAINT jobs_state_check CHECK (
        state = 'queued' OR state = 'running' OR state = 'completed' OR state = 'scheduled' OR state = 'retrying'
        OR state = 'dead' OR state = 'cancelled' OR state = 'trashed'),
    priority INTEGER NOT NULL CONSTRAINT jobs_priority_check CHECK (priority BETWEEN -128 AND 127),
    -- its order among those of its priority: the number, and a new one when an operator retries it
    seq INTEGER NOT NULL,
    -- its order in a queue with aging, from its arrival to its end; null = (127 - priority) << 45 | seq
    aged_rank INTEGER,
    -- that order; null = not ready
    rank INTEGER,
    run_at REAL NOT NULL,
    retry_count INTEGER NOT NULL DEFAULT 0,
    -- how often a worker saw the process die in which it ran alone
    crashes INTEGER NOT NULL DEFAULT 0,
    max_retries INTEGER NOT NULL,
    -- a JSON array; null = none
    tags TEXT,
    created_at REAL NOT NULL,
    -- the last change, by which lists are ordered
    updated_at REAL NOT NULL,
    -- the last lease token that was given out, and how its worker ended that attempt (null: not yet, or it was lost)
    token INTEGER NOT NULL DEFAULT 0,
    last_outcome TEXT,
    -- of the attempt that runs, or of the last one of a finished job
    worker TEXT,
    started_at REAL,
    progress INTEGER NOT NULL DEFAULT 0 CONSTRAINT jobs_progress_check CHECK (progress BETWEEN 0 AND 100),
    message TEXT NOT NULL DEFAULT '',
    -- the end of the lease; exactly while it runs
    expires_at REAL,
    cancel INTEGER NOT NULL DEFAULT 0,
    -- 0: claimed ahead, waiting in its worker for a slot
    started INTEGER NOT NULL DEFAULT 1,
    -- exactly in final states
    finished_at REAL,
    trashed_at REAL,
    ordering_key TEXT,
    -- 1: its ordering key has admitted it, and it has not released the key; 0: it waits for its key, not ready
    admitted INTEGER CONSTRAINT jobs_admitted_check CHECK (
        admitted IS NULL OR admitted IN (0, 1) AND ordering_key IS NOT NULL),
    unique_key TEXT,
    -- null: it holds its unique key while it is unfinished
    unique_seconds REAL,
    result TEXT,
    -- of the last failed attempt
    error TEXT,
    signature TEXT,
    kind TEXT,
    -- how many workers were lost while they ran it
    losses INTEGER NOT NULL DEFAULT 0,
    -- The number of the worker's claim that made it run, counted by the worker; 0 = it counts none. Where the answer to a claim got
    -- lost, its worker finds by it what it was given.
    claim INTEGER NOT NULL DEFAULT 0,
    CONSTRAINT jobs_ready_check CHECK (
        (state = 'queued') = (rank IS NOT NULL OR admitted IS 0) AND (rank IS NULL OR admitted IS NOT 0)
        AND coalesce(rank = coalesce(aged_rank, (127 - priority) << 45 | seq), true)),
    CONSTRAINT jobs_key_check CHECK (
        ordering_key IS NULL OR state = 'scheduled' OR state = 'running' OR state = 'retrying' OR state = 'dead'
        OR (admitted IS NOT NULL) = (state = 'queued')),
    CONSTRAINT jobs_running_check CHECK ((state = 'running') = (expires_at IS NOT NULL) AND (cancel = 0 OR state = 'running')),
    CONSTRAINT jobs_finished_check CHECK (
        (state = 'completed' OR state = 'dead' OR state = 'cancelled' OR state = 'trashed') = (finished_at IS NOT NULL)
        AND (state = 'trashed') = (trashed_at IS NOT NULL))
) STRICT;

-- The claim's index: ready jobs only, a type at a time, so that neither history nor a backlog of types that this worker does
-- not have slows it.
CREATE INDEX jobs_ready ON jobs (queue_id, type, rank) WHERE rank IS NOT NULL;
CREATE INDEX jobs_due ON jobs (run_at, seq, queue_id, state) WHERE state IN ('scheduled', 'retrying');
-- Lists in the order of the last change, a state at a time; also the running jobs, and what is over its retention.
CREATE INDEX jobs_listed ON jobs (state, updated_at);
-- Covers what groups and counts of the DLQ read.
CREATE INDEX jobs_dead ON jobs (state, signature, updated_at, queue_id, type) WHERE state IN ('dead', 'trashed');
CREATE INDEX jobs_cancelled ON jobs (worker) WHERE cancel = 1;
-- Jobs that an ordering key has admitted, and those that wait for it in order; covers what an overview reads of them.
CREATE INDEX jobs_ordering ON jobs (queue_id, ordering_key, admitted, seq, type, priority, run_at) WHERE admitted IS NOT NULL;
-- Covers what an overview reads of ready jobs whose priority does not follow from their rank.
CREATE INDEX jobs_aged ON jobs (queue_id, type, rank, priority, run_at, aged_rank) WHERE aged_rank IS NOT NULL AND rank IS NOT NULL;

CREATE TABLE payloads (
    number INTEGER PRIMARY KEY,
    payload TEXT NOT NULL
) STRICT;

CREATE TABLE job_attempts (
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

-- How workers ended the attempts before a job's last one, to accept an outcome again whose answer was lost.
CREATE TABLE attempt_outcomes (
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
-- a loss of power took back: a process that opens the file goes on behind it, and raises it with a commit that is on the disk.
CREATE TABLE counters (
    one INTEGER PRIMARY KEY CONSTRAINT counters_one_check CHECK (one = 1),
    seq INTEGER NOT NULL,
    token INTEGER NOT NULL,
    token_ceiling INTEGER NOT NULL,
    CONSTRAINT counters_token_check CHECK (token <= token_ceiling)
) STRICT;
INSERT INTO counters VALUES (1, 0, 0, 0);

-- The machine's two clocks as they were read together, to distinguish elapsed time from a clock that was set.
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
    heartbeat_at REAL NOT NULL,
    -- Where its process runs (machine, its start, process namespace), and which process it is there (number, start): only a worker
    -- at the same place knows that it is gone. Empty = no worker does.
    place TEXT NOT NULL DEFAULT '',
    process TEXT NOT NULL DEFAULT '',
    -- handlers that it gave up and that still run: they swallow their cancellation, or are threads, which cannot be ended
    stuck INTEGER NOT NULL DEFAULT 0
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

-- Events for other processes, a few moments long, and the processes that listen: without listeners none are written.
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

-- The holders of unique keys: the job itself may be gone, and goes on holding its key until its time.
CREATE TABLE unique_keys (
    queue_id INTEGER NOT NULL,
    key TEXT NOT NULL,
    job INTEGER NOT NULL,
    job_id TEXT NOT NULL,
    -- null = while the job is unfinished
    expires_at REAL,
    PRIMARY KEY (queue_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX unique_keys_expires ON unique_keys (expires_at) WHERE expires_at IS NOT NULL;

-- Schedules, and the ticks of theirs that have passed.

CREATE TABLE schedules (
    name TEXT PRIMARY KEY CONSTRAINT schedules_name_check CHECK (length(name) BETWEEN 1 AND 200),
    cron TEXT NOT NULL,
    tz TEXT NOT NULL,
    type TEXT NOT NULL,
    payload TEXT NOT NULL,
    queue TEXT NOT NULL CONSTRAINT schedules_queue_check CHECK (length(queue) BETWEEN 1 AND 200),
    priority INTEGER NOT NULL CONSTRAINT schedules_priority_check CHECK (priority BETWEEN -128 AND 127),
    max_retries INTEGER NOT NULL,
    ordering_key TEXT,
    -- when it ticks next; the scheduler that moves it on inserts the job
    next_tick REAL NOT NULL,
    paused_at REAL,
    last_tick REAL,
    last_job TEXT
) STRICT;

-- One row a tick, whatever the number of schedulers.
CREATE TABLE schedule_ticks (
    schedule TEXT NOT NULL,
    tick REAL NOT NULL,
    -- null: it passed without a job
    job_id TEXT,
    fired_at REAL NOT NULL,
    PRIMARY KEY (schedule, tick)
) STRICT, WITHOUT ROWID;
CREATE INDEX schedule_ticks_tick ON schedule_ticks (tick);

-- The lines that handlers write about their jobs, and the schemas of the types that workers announce.

CREATE TABLE job_logs (
    job INTEGER NOT NULL,
    -- the job's count over all attempts
    number INTEGER NOT NULL,
    token INTEGER NOT NULL,
    -- the attempt's own count
    line INTEGER NOT NULL,
    at REAL NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (job, number)
) STRICT;

CREATE TABLE task_types (
    type TEXT PRIMARY KEY,
    -- JSON, in the order of the parameters
    schema TEXT NOT NULL,
    announced_at REAL NOT NULL
) STRICT;

-- What operators ask for, with its jobs.

CREATE TABLE operations (
    -- never used again
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    verb TEXT NOT NULL,
    label TEXT NOT NULL,
    author_user TEXT NOT NULL,
    author_host TEXT NOT NULL,
    why TEXT NOT NULL,
    -- how its jobs go on: seconds, and where they go (null = each stays where it is)
    delay REAL NOT NULL,
    spread REAL NOT NULL,
    queue TEXT,
    priority INTEGER,
    -- how carefully it goes on: jobs first, jobs a second (null = all it can), percent (null = never)
    canary INTEGER NOT NULL,
    rate REAL,
    stop_percent REAL,
    -- a JSON array
    signatures TEXT NOT NULL,
    state TEXT NOT NULL CONSTRAINT operations_state_check CHECK (
        state IN ('preparing', 'running', 'paused', 'stopped', 'done', 'cancelled', 'failed')),
    note TEXT NOT NULL DEFAULT '',
    -- members, and those behind the last step
    total INTEGER NOT NULL DEFAULT 0,
    done INTEGER NOT NULL DEFAULT 0,
    processed INTEGER NOT NULL DEFAULT 0,
    skipped INTEGER NOT NULL DEFAULT 0,
    errored INTEGER NOT NULL DEFAULT 0,
    barrier INTEGER NOT NULL DEFAULT 0,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    started_at REAL,
    -- exactly in states that nothing leads out of
    finished_at REAL,
    -- before which its rate allows no step
    next_at REAL NOT NULL DEFAULT 0.0,
    CONSTRAINT operations_done_check CHECK (done = processed + skipped + errored AND done <= total AND barrier <= total),
    CONSTRAINT operations_finished_check CHECK ((finished_at IS NOT NULL) = (state IN ('done', 'cancelled', 'failed')))
) STRICT;
CREATE INDEX operations_unfinished ON operations (number) WHERE finished_at IS NULL;
CREATE INDEX operations_finished ON operations (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE operation_signatures (
    signature TEXT NOT NULL,
    operation INTEGER NOT NULL,
    PRIMARY KEY (signature, operation)
) STRICT, WITHOUT ROWID;
CREATE INDEX operation_signatures_operation ON operation_signatures (operation);

-- The jobs that an operation was asked for, numbered from 1 in the order of its steps.
CREATE TABLE operation_members (
    operation INTEGER NOT NULL,
    position INTEGER NOT NULL,
    job_id TEXT NOT NULL,
    -- the job's last lease token and its queue when it was frozen; null and empty = there was no such job
    token INTEGER,
    queue TEXT NOT NULL,
    -- 1: the operation has changed it
    changed INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (operation, position)
) STRICT, WITHOUT ROWID;
-- No job twice in an operation, and the operations of a job.
CREATE UNIQUE INDEX operation_members_job ON operation_members (job_id, operation);
CREATE INDEX operation_members_changed ON operation_members (operation, position) WHERE changed = 1;

-- For a person with the sqlite3 program: every job with its queue, its payload and its times as one reads them.
CREATE VIEW job_list AS
    SELECT j.id, q.name AS queue, j.type, CASE j.state WHEN 'trashed' THEN 'dead' ELSE j.state END AS status, j.priority,
           j.ordering_key, j.unique_key, j.retry_count, j.max_retries, j.crashes, j.losses, j.worker, j.progress, j.error, p.payload,
           j.result,
           datetime(j.created_at, 'unixepoch') AS created_at, datetime(j.run_at, 'unixepoch') AS run_at,
           datetime(j.started_at, 'unixepoch') AS started_at, datetime(j.finished_at, 'unixepoch') AS finished_at,
           datetime(j.updated_at, 'unixepoch') AS updated_at, j.state = 'trashed' AS trashed
      FROM jobs j CROSS JOIN queues q ON q.number = j.queue_id CROSS JOIN payloads p ON p.number = j.number;
