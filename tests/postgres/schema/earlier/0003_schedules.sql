-- Schedules, and the ticks of theirs that have passed.

CREATE TABLE schedules (
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
    -- when it ticks next; whoever moves it on brings the job
    next_tick timestamptz NOT NULL,
    paused_at timestamptz,
    last_tick timestamptz,
    last_job uuid,
    announced_at timestamptz NOT NULL DEFAULT now()
);

-- One row a tick, whatever the number of schedulers.
CREATE TABLE schedule_ticks (
    schedule text NOT NULL,
    tick timestamptz NOT NULL,
    -- null: it passed without a job
    job_id uuid,
    fired_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT schedule_ticks_pkey PRIMARY KEY (schedule, tick)
);
CREATE INDEX schedule_ticks_tick ON schedule_ticks (tick);
