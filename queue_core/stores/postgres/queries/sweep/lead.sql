-- Take or renew the leadership of a duty; a row lock of a moment, so it works through any pooler.
INSERT INTO leaders AS l (duty, worker, expires_at)
VALUES (%(duty)s, %(worker)s, now() + make_interval(secs => %(seconds)s))
    ON CONFLICT (duty) DO UPDATE SET worker = excluded.worker, expires_at = excluded.expires_at
 WHERE l.worker = excluded.worker OR l.expires_at < now()
RETURNING worker
