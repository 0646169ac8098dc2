-- Take or renew the leadership of a duty, unless another worker holds it.
INSERT INTO leaders (duty, worker, expires_at) VALUES (:duty, :worker, :until)
    ON CONFLICT (duty) DO UPDATE SET worker = excluded.worker, expires_at = excluded.expires_at
 WHERE worker = excluded.worker OR expires_at < :now
