-- So many dead jobs in 40 signatures of five types, over four queues; three quarters died within the last 15 minutes.
WITH made AS (
    INSERT INTO queues (name) SELECT 'q' || n FROM generate_series(1, 4) AS n RETURNING id
), numbered AS (
    SELECT id, row_number() OVER (ORDER BY id) - 1 AS place FROM made
), jobs AS (
    SELECT n, substr(md5((n %% 40)::text), 1, 12) AS signature,
           now() - make_interval(secs => CASE WHEN n %% 4 = 0 THEN 900 + n %% 80000 ELSE n %% 900 END) AS died
      FROM generate_series(1, %(count)s::int) AS n
), known AS (
    INSERT INTO error_signatures (signature, title, exception, first_seen)
    SELECT signature, 'TimeoutError: smtp <host>:<n> ' || signature, 'TimeoutError', min(died) FROM jobs GROUP BY signature
), minutes AS (
    INSERT INTO signature_minutes (signature, queue_id, minute, n)
    SELECT j.signature, q.id, date_trunc('minute', j.died), count(*)
      FROM jobs j JOIN numbered q ON q.place = j.n %% 4
     GROUP BY 1, 2, 3
)
INSERT INTO jobs_dead (id, queue_id, seq, priority, run_at, type, payload, tags, retry_count, crashes, max_retries,
                       last_token, error, signature, kind, created_at, died_at)
SELECT gen_random_uuid(), q.id, j.n, 5, j.died, 'type' || j.n %% 5,
       '{"n": ' || j.n || ', "pad": "' || repeat(md5(j.n::text), 4) || '"}', array['bulk'], 3, 0, 3, j.n,
       'TimeoutError: smtp mx-' || j.n %% 97 || ':25 timed out after 10s', j.signature, 'error', j.died, j.died
  FROM jobs j JOIN numbered q ON q.place = j.n %% 4
