-- Headers of jobs: a JSON object of texts, null = none. They move with a job from table to table.

ALTER TABLE {schema}.jobs ADD COLUMN headers text;
ALTER TABLE {schema}.jobs_dead ADD COLUMN headers text;
ALTER TABLE {schema}.job_history ADD COLUMN headers text;

CREATE OR REPLACE VIEW {schema}.running_jobs AS
    SELECT j.id, q.name AS queue, j.queue_id, j.type, 'running'::{schema}.job_status AS status, j.priority, j.payload, j.tags,
           j.retry_count, j.max_retries, j.crashes, l.token, j.run_at, j.created_at, l.started_at,
           NULL::timestamptz AS finished_at, l.started_at AS updated_at, j.error, NULL::text AS result,
           (SELECT a.signature FROM {schema}.job_attempts a WHERE a.job_id = j.id ORDER BY a.token DESC LIMIT 1) AS signature,
           (SELECT a.kind FROM {schema}.job_attempts a WHERE a.job_id = j.id ORDER BY a.token DESC LIMIT 1) AS kind,
           l.progress, l.message, l.worker, l.expires_at, l.cancel, NULL::timestamptz AS trashed_at,
           j.ordering_key, j.unique_key, j.losses, j.headers
      FROM {schema}.leases l JOIN {schema}.jobs j ON j.id = l.id LEFT JOIN {schema}.queues q ON q.id = j.queue_id;

CREATE OR REPLACE VIEW {schema}.waiting_jobs AS
    SELECT j.id, q.name AS queue, j.queue_id, j.type, j.status, j.priority, j.payload, j.tags,
           j.retry_count, j.max_retries, j.crashes, j.last_token AS token, j.run_at, j.created_at,
           NULL::timestamptz AS started_at, NULL::timestamptz AS finished_at, j.updated_at, j.error, NULL::text AS result,
           (SELECT a.signature FROM {schema}.job_attempts a WHERE a.job_id = j.id ORDER BY a.token DESC LIMIT 1) AS signature,
           (SELECT a.kind FROM {schema}.job_attempts a WHERE a.job_id = j.id ORDER BY a.token DESC LIMIT 1) AS kind,
           0::smallint AS progress, '' AS message, NULL::text AS worker, NULL::timestamptz AS expires_at, false AS cancel,
           NULL::timestamptz AS trashed_at, j.ordering_key, j.unique_key, j.losses, j.headers
      FROM {schema}.jobs j LEFT JOIN {schema}.queues q ON q.id = j.queue_id
     WHERE NOT EXISTS (SELECT FROM {schema}.leases l WHERE l.id = j.id);

CREATE OR REPLACE VIEW {schema}.dead_jobs AS
    SELECT d.id, q.name AS queue, d.queue_id, d.type, 'dead'::{schema}.job_status AS status, d.priority, d.payload, d.tags,
           d.retry_count, d.max_retries, d.crashes, d.last_token AS token, d.run_at, d.created_at, d.started_at,
           d.died_at AS finished_at, d.died_at AS updated_at, d.error, NULL::text AS result, d.signature, d.kind,
           d.progress, d.message, d.worker, NULL::timestamptz AS expires_at, false AS cancel, NULL::timestamptz AS trashed_at,
           d.ordering_key, d.unique_key, d.losses, d.headers
      FROM {schema}.jobs_dead d LEFT JOIN {schema}.queues q ON q.id = d.queue_id
     WHERE d.trashed_at IS NULL;

CREATE OR REPLACE VIEW {schema}.trashed_jobs AS
    SELECT d.id, q.name AS queue, d.queue_id, d.type, 'dead'::{schema}.job_status AS status, d.priority, d.payload, d.tags,
           d.retry_count, d.max_retries, d.crashes, d.last_token AS token, d.run_at, d.created_at, d.started_at,
           d.died_at AS finished_at, d.trashed_at AS updated_at, d.error, NULL::text AS result, d.signature, d.kind,
           d.progress, d.message, d.worker, NULL::timestamptz AS expires_at, false AS cancel, d.trashed_at,
           d.ordering_key, d.unique_key, d.losses, d.headers
      FROM {schema}.jobs_dead d LEFT JOIN {schema}.queues q ON q.id = d.queue_id
     WHERE d.trashed_at IS NOT NULL;

CREATE OR REPLACE VIEW {schema}.finished_jobs AS
    SELECT h.id, q.name AS queue, h.queue_id, h.type, h.status, h.priority, h.payload, h.tags,
           h.retry_count, h.max_retries, h.crashes, h.last_token AS token, h.run_at, h.created_at, h.started_at,
           h.finished_at, h.finished_at AS updated_at, h.error, h.result,
           (SELECT a.signature FROM {schema}.job_attempts a WHERE a.job_id = h.id ORDER BY a.token DESC LIMIT 1) AS signature,
           (SELECT a.kind FROM {schema}.job_attempts a WHERE a.job_id = h.id ORDER BY a.token DESC LIMIT 1) AS kind,
           CASE WHEN h.status = 'completed' THEN 100 ELSE 0 END::smallint AS progress, '' AS message, h.worker,
           NULL::timestamptz AS expires_at, false AS cancel, NULL::timestamptz AS trashed_at, h.ordering_key, h.unique_key, h.losses, h.headers
      FROM {schema}.job_history h LEFT JOIN {schema}.queues q ON q.id = h.queue_id;

CREATE OR REPLACE VIEW {schema}.all_jobs AS
    SELECT * FROM {schema}.running_jobs
    UNION ALL SELECT * FROM {schema}.waiting_jobs
    UNION ALL SELECT * FROM {schema}.dead_jobs
    UNION ALL SELECT * FROM {schema}.trashed_jobs
    UNION ALL SELECT * FROM {schema}.finished_jobs;
