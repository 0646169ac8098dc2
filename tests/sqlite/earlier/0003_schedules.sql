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
    -- when it ticks next; whoever moves it on brings the job
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
