-- Losses are counted apart from crashes; leases know their claims, and workers their processes.

-- How many workers were lost while they ran a job. `crashes` from here on: how often a worker saw the process die in which it
-- ran alone. What was counted there before stays: such a job runs alone.
ALTER TABLE jobs ADD COLUMN losses int NOT NULL DEFAULT 0;
ALTER TABLE jobs_dead ADD COLUMN losses int NOT NULL DEFAULT 0;
ALTER TABLE job_history ADD COLUMN losses int NOT NULL DEFAULT 0;

-- The number of the worker's claim that made the lease, counted by the worker; 0 = it counts none. Where the answer to a claim
-- got lost, its worker finds by it what it was given.
ALTER TABLE leases ADD COLUMN claim int NOT NULL DEFAULT 0;

-- Where a worker's process runs (machine, its start, process namespace), and which process it is there (number, start): only
-- who runs at the same place can tell that it is gone. Empty = nobody can.
ALTER TABLE workers ADD COLUMN place text NOT NULL DEFAULT '';
ALTER TABLE workers ADD COLUMN process text NOT NULL DEFAULT '';
CREATE INDEX workers_place ON workers (place) WHERE place <> '';

-- The views of before, each with the losses at its end.
CREATE OR REPLACE VIEW running_jobs AS
    SELECT j.id, q.name AS queue, j.queue_id, j.type, 'running'::job_status AS status, j.priority, j.payload, j.tags,
           j.retry_count, j.max_retries, j.crashes, l.token, j.run_at, j.created_at, l.started_at,
           NULL::timestamptz AS finished_at, l.started_at AS updated_at, j.error, NULL::text AS result,
           (SELECT a.signature FROM job_attempts a WHERE a.job_id = j.id ORDER BY a.token DESC LIMIT 1) AS signature,
           (SELECT a.kind FROM job_attempts a WHERE a.job_id = j.id ORDER BY a.token DESC LIMIT 1) AS kind,
           l.progress, l.message, l.worker, l.expires_at, l.cancel, NULL::timestamptz AS trashed_at,
           j.ordering_key, j.unique_key, j.losses
      FROM leases l JOIN jobs j ON j.id = l.id LEFT JOIN queues q ON q.id = j.queue_id;

CREATE OR REPLACE VIEW waiting_jobs AS
    SELECT j.id, q.name AS queue, j.queue_id, j.type, j.status, j.priority, j.payload, j.tags,
           j.retry_count, j.max_retries, j.crashes, j.last_token AS token, j.run_at, j.created_at,
           NULL::timestamptz AS started_at, NULL::timestamptz AS finished_at, j.updated_at, j.error, NULL::text AS result,
           (SELECT a.signature FROM job_attempts a WHERE a.job_id = j.id ORDER BY a.token DESC LIMIT 1) AS signature,
           (SELECT a.kind FROM job_attempts a WHERE a.job_id = j.id ORDER BY a.token DESC LIMIT 1) AS kind,
           0::smallint AS progress, '' AS message, NULL::text AS worker, NULL::timestamptz AS expires_at, false AS cancel,
           NULL::timestamptz AS trashed_at, j.ordering_key, j.unique_key, j.losses
      FROM jobs j LEFT JOIN queues q ON q.id = j.queue_id
     WHERE NOT EXISTS (SELECT FROM leases l WHERE l.id = j.id);

CREATE OR REPLACE VIEW dead_jobs AS
    SELECT d.id, q.name AS queue, d.queue_id, d.type, 'dead'::job_status AS status, d.priority, d.payload, d.tags,
           d.retry_count, d.max_retries, d.crashes, d.last_token AS token, d.run_at, d.created_at, d.started_at,
           d.died_at AS finished_at, d.died_at AS updated_at, d.error, NULL::text AS result, d.signature, d.kind,
           d.progress, d.message, d.worker, NULL::timestamptz AS expires_at, false AS cancel, NULL::timestamptz AS trashed_at,
           d.ordering_key, d.unique_key, d.losses
      FROM jobs_dead d LEFT JOIN queues q ON q.id = d.queue_id
     WHERE d.trashed_at IS NULL;

CREATE OR REPLACE VIEW trashed_jobs AS
    SELECT d.id, q.name AS queue, d.queue_id, d.type, 'dead'::job_status AS status, d.priority, d.payload, d.tags,
           d.retry_count, d.max_retries, d.crashes, d.last_token AS token, d.run_at, d.created_at, d.started_at,
           d.died_at AS finished_at, d.trashed_at AS updated_at, d.error, NULL::text AS result, d.signature, d.kind,
           d.progress, d.message, d.worker, NULL::timestamptz AS expires_at, false AS cancel, d.trashed_at,
           d.ordering_key, d.unique_key, d.losses
      FROM jobs_dead d LEFT JOIN queues q ON q.id = d.queue_id
     WHERE d.trashed_at IS NOT NULL;

CREATE OR REPLACE VIEW finished_jobs AS
    SELECT h.id, q.name AS queue, h.queue_id, h.type, h.status, h.priority, h.payload, h.tags,
           h.retry_count, h.max_retries, h.crashes, h.last_token AS token, h.run_at, h.created_at, h.started_at,
           h.finished_at, h.finished_at AS updated_at, h.error, h.result,
           (SELECT a.signature FROM job_attempts a WHERE a.job_id = h.id ORDER BY a.token DESC LIMIT 1) AS signature,
           (SELECT a.kind FROM job_attempts a WHERE a.job_id = h.id ORDER BY a.token DESC LIMIT 1) AS kind,
           CASE WHEN h.status = 'completed' THEN 100 ELSE 0 END::smallint AS progress, '' AS message, h.worker,
           NULL::timestamptz AS expires_at, false AS cancel, NULL::timestamptz AS trashed_at, h.ordering_key, h.unique_key, h.losses
      FROM job_history h LEFT JOIN queues q ON q.id = h.queue_id;

CREATE OR REPLACE VIEW all_jobs AS
    SELECT * FROM running_jobs
    UNION ALL SELECT * FROM waiting_jobs
    UNION ALL SELECT * FROM dead_jobs
    UNION ALL SELECT * FROM trashed_jobs
    UNION ALL SELECT * FROM finished_jobs;
