-- Forget minutes that no series shows any more, and attempts of jobs that are gone.
WITH series AS (
    DELETE FROM minutes WHERE minute < now() - make_interval(secs => %(seconds)s)
), growth AS (
    DELETE FROM signature_minutes WHERE minute < now() - make_interval(secs => %(seconds)s)
), lost AS (
    DELETE FROM workers WHERE heartbeat_at < now() - interval '1 day'
)
DELETE FROM leaders WHERE expires_at < now() - interval '1 day'
