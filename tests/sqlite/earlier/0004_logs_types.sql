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
