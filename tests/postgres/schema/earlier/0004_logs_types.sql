-- The lines that handlers write about their jobs, and the schemas of the types that workers announce.

-- No foreign key: a job moves between tables. Lines of a purged job go with it; upkeep forgets those of jobs that went
-- otherwise. Nothing is ever updated.
CREATE TABLE job_logs (
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

CREATE TABLE task_types (
    type text PRIMARY KEY,
    -- JSON, in the order of the parameters
    schema text NOT NULL,
    announced_at timestamptz NOT NULL DEFAULT now()
);
