-- Losses are counted apart from crashes; running jobs know their claims, and workers their processes.

-- How many workers were lost while they ran a job. `crashes` from here on: how often a worker saw the process die in which it
-- ran alone. What was counted there before stays: such a job runs alone.
ALTER TABLE jobs ADD COLUMN losses INTEGER NOT NULL DEFAULT 0;
-- The number of the worker's claim that made it run, counted by the worker; 0 = it counts none. Where the answer to a claim got
-- lost, its worker finds by it what it was given.
ALTER TABLE jobs ADD COLUMN claim INTEGER NOT NULL DEFAULT 0;

-- Where a worker's process runs (machine, its start, process namespace), and which process it is there (number, start): only
-- who runs at the same place can tell that it is gone. Empty = nobody can.
ALTER TABLE workers ADD COLUMN place TEXT NOT NULL DEFAULT '';
ALTER TABLE workers ADD COLUMN process TEXT NOT NULL DEFAULT '';

DROP VIEW job_list;
-- For a person with the sqlite3 program: every job with its queue, its payload and its times as one reads them.
CREATE VIEW job_list AS
    SELECT j.id, q.name AS queue, j.type, CASE j.place WHEN 'trashed' THEN 'dead' ELSE j.place END AS status, j.priority,
           j.ordering_key, j.unique_key, j.retry_count, j.max_retries, j.crashes, j.losses, j.worker, j.progress, j.error, p.payload,
           j.result,
           datetime(j.created_at, 'unixepoch') AS created_at, datetime(j.run_at, 'unixepoch') AS run_at,
           datetime(j.started_at, 'unixepoch') AS started_at, datetime(j.finished_at, 'unixepoch') AS finished_at,
           datetime(j.updated_at, 'unixepoch') AS updated_at, j.place = 'trashed' AS trashed
      FROM jobs j CROSS JOIN queues q ON q.number = j.queue_id CROSS JOIN payloads p ON p.number = j.number;
