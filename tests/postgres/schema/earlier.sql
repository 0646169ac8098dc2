-- What a queue of that time may hold: a job in each state, a day of the history that is detached, and totals that are not folded.
SELECT make_job_history(7);
INSERT INTO queues (name) VALUES ('work');
UPDATE lease_epoch SET epoch = 7;
INSERT INTO lease_epoch_live (epoch) VALUES (7);
INSERT INTO jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, max_retries)
SELECT ('00000000-0000-7000-8000-00000000000' || n)::uuid, 1, CASE WHEN n < 3 THEN (127 - 5)::bigint << 45 | s.seq END, s.seq, 5,
       (ARRAY['queued', 'queued', 'scheduled', 'retrying'])[n]::job_status, now() + CASE WHEN n < 3 THEN '0' ELSE '1 s' END::interval,
       'work', '{"n": ' || n || '}', 3
  FROM generate_series(1, 4) AS n CROSS JOIN LATERAL (SELECT nextval('job_seq') + 0 * n AS seq) s;
INSERT INTO leases (id, token, queue_id, worker, started_at, expires_at)
VALUES ('00000000-0000-7000-8000-000000000002', 7::bigint << 40 | nextval('lease_seq'), 1, 'gone', now(), now() - interval '1 s');
INSERT INTO jobs_dead (id, queue_id, seq, priority, run_at, type, payload, retry_count, crashes, max_retries, last_token, signature, kind,
                       created_at)
VALUES ('00000000-0000-7000-8000-000000000005', 1, nextval('job_seq'), 5, now(), 'work', '{"n": 5}', 0, 0, 3, 1, 'abc', 'error', now());
INSERT INTO job_history (id, queue_id, seq, priority, status, run_at, type, payload, retry_count, crashes, max_retries, last_token,
                         created_at)
VALUES ('00000000-0000-7000-8000-000000000006', 1, nextval('job_seq'), 5, 'completed', now(), 'work', '{"n": 6}', 0, 0, 3, 1, now());
INSERT INTO tally_deltas (queue_id, type, outcome, n) VALUES (1, 'work', 'enqueued', 6), (1, 'work', 'completed', 1);
DO $$ BEGIN
    EXECUTE 'ALTER TABLE job_history DETACH PARTITION job_history_' || to_char((now() AT TIME ZONE 'UTC')::date - 1, 'YYYYMMDD');
END $$;
