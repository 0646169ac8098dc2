-- What triage keeps.

-- How carefully operations go on: whether an attempt of a canary that fails counts as if its job had died, the members of its first
-- steps (a JSON array; empty: there is only the canary, if any), the time before which there is no step, and the release that a live
-- worker has to announce before (null: it waits for none).
ALTER TABLE operations ADD COLUMN first_failure INTEGER NOT NULL DEFAULT 0;
ALTER TABLE operations ADD COLUMN ramp TEXT NOT NULL DEFAULT '[]';
ALTER TABLE operations ADD COLUMN begin_at REAL;
ALTER TABLE operations ADD COLUMN when_release TEXT;
-- What became of the jobs that it has retried, as the leader last counted: a JSON array; null: not counted yet.
ALTER TABLE operations ADD COLUMN outcomes TEXT;
-- 1: nothing more becomes known of them.
ALTER TABLE operations ADD COLUMN counted INTEGER NOT NULL DEFAULT 1;
CREATE INDEX operations_uncounted ON operations (number) WHERE counted = 0;

-- Closed: it takes no new jobs.
ALTER TABLE queues ADD COLUMN closed_at REAL;

-- Stacks of running jobs: asked for, and as their workers have answered. The last of each job, and the last of all.
CREATE TABLE job_stacks (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id TEXT NOT NULL,
    worker TEXT NOT NULL,
    requested_at REAL NOT NULL,
    -- null: the worker has not answered
    taken_at REAL,
    -- a JSON object
    stack TEXT,
    CONSTRAINT job_stacks_taken_check CHECK ((taken_at IS NULL) = (stack IS NULL))
) STRICT;
CREATE INDEX job_stacks_job ON job_stacks (job_id, number);
CREATE INDEX job_stacks_asked ON job_stacks (worker) WHERE taken_at IS NULL;

-- Releases of programs, as numbers in the rows: of workers, of the last attempt of jobs, of the attempts that failed.

CREATE TABLE releases (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL CONSTRAINT releases_name_key UNIQUE CONSTRAINT releases_name_check CHECK (length(name) BETWEEN 1 AND 64),
    -- Its order among all: a new one comes last, or before the first greater version, and those behind it move on.
    place INTEGER NOT NULL,
    first_seen REAL NOT NULL
) STRICT;

-- 0 = unknown.
ALTER TABLE workers ADD COLUMN release INTEGER NOT NULL DEFAULT 0;
-- of the attempt that runs, or of the last one of a job that ended; what an earlier attempt left otherwise
ALTER TABLE jobs ADD COLUMN release INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job_attempts ADD COLUMN release INTEGER NOT NULL DEFAULT 0;

-- The deaths of each error by release, and what became of the jobs of each type. 0 = unknown.
CREATE TABLE signature_releases (
    signature TEXT NOT NULL,
    release INTEGER NOT NULL,
    n INTEGER NOT NULL,
    first_at REAL NOT NULL,
    last_at REAL NOT NULL,
    -- the latest begin of an attempt that died; 0 = unknown
    last_started REAL NOT NULL,
    PRIMARY KEY (signature, release)
) STRICT, WITHOUT ROWID;
CREATE TABLE type_releases (
    type TEXT NOT NULL,
    release INTEGER NOT NULL,
    completed INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    -- when the last one completed; 0 = none has
    last_at REAL NOT NULL,
    PRIMARY KEY (type, release)
) STRICT, WITHOUT ROWID;

-- What operators have set of an error: its state, owner, note and link with their last changes, as JSON
-- (queue_core.model.triage.signatures). Only those that were touched.
CREATE TABLE signature_states (
    signature TEXT PRIMARY KEY,
    facts TEXT NOT NULL
) STRICT, WITHOUT ROWID;
