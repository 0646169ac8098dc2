-- The times among these facts of a signature, earlier.
CREATE FUNCTION pg_temp.earlier(facts jsonb, by interval) RETURNS jsonb LANGUAGE sql AS $$
    SELECT facts || (SELECT coalesce(jsonb_object_agg(key, value::float8 - extract(epoch FROM by)), '{}')
                       FROM jsonb_each_text(facts) WHERE key IN ('at', 'until') AND value::float8 > 0)
$$;
-- Let time pass without waiting: everything that was, was earlier. The history gets the days that it then reaches back to.
CREATE FUNCTION pg_temp.pass_time(by interval) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    day date;
BEGIN
    FOR day IN SELECT DISTINCT ((finished_at - by) AT TIME ZONE 'UTC')::date FROM job_history LOOP
        EXECUTE format('CREATE TABLE IF NOT EXISTS %I PARTITION OF job_history FOR VALUES FROM (%L) TO (%L)',
                       'job_history_' || to_char(day, 'YYYYMMDD'), day::text || ' 00:00+00', (day + 1)::text || ' 00:00+00');
    END LOOP;
    UPDATE job_history SET run_at = run_at - by, created_at = created_at - by, started_at = started_at - by,
                           finished_at = finished_at - by;
    UPDATE jobs SET run_at = run_at - by, created_at = created_at - by, updated_at = updated_at - by;
    -- With aging a place is a time. Together with the rank, which the table's check compares with it.
    UPDATE jobs SET aged_rank = aged_rank - (extract(epoch FROM by) * 1000000)::bigint,
                    rank = rank - (extract(epoch FROM by) * 1000000)::bigint WHERE aged_rank IS NOT NULL;
    UPDATE queue_arrivals SET last_us = last_us - (extract(epoch FROM by) * 1000000)::bigint;
    UPDATE queue_rates SET refilled_at = refilled_at - by;
    UPDATE queue_capacity SET counted_at = counted_at - by;
    UPDATE capacity_requeued SET at = at - by;
    UPDATE unique_keys SET expires_at = expires_at - by;
    UPDATE jobs_dead SET run_at = run_at - by, created_at = created_at - by, started_at = started_at - by,
                         died_at = died_at - by, trashed_at = trashed_at - by;
    UPDATE job_attempts SET started_at = started_at - by, finished_at = finished_at - by;
    UPDATE job_logs SET at = at - by;
    UPDATE task_types SET announced_at = announced_at - by;
    UPDATE error_signatures SET first_seen = first_seen - by;
    UPDATE leases SET started_at = started_at - by, expires_at = expires_at - by;
    UPDATE workers SET started_at = started_at - by, heartbeat_at = heartbeat_at - by;
    UPDATE leaders SET expires_at = expires_at - by;
    UPDATE schedules SET next_tick = next_tick - by, paused_at = paused_at - by, last_tick = last_tick - by;
    -- By way of another age: a tick must not come upon one that has not moved yet.
    UPDATE schedule_ticks SET tick = tick - by - interval '1000 years', fired_at = fired_at - by;
    UPDATE schedule_ticks SET tick = tick + interval '1000 years';
    UPDATE operations SET created_at = created_at - by, updated_at = updated_at - by, started_at = started_at - by,
                          finished_at = finished_at - by, next_at = next_at - by;
    UPDATE tally_deltas SET at = at - by, started_at = started_at - by;
    UPDATE releases SET first_seen = first_seen - by;
    UPDATE signature_releases SET first_at = first_at - by, last_at = last_at - by, last_started = last_started - by;
    UPDATE signature_releases SET n = n - (extract(epoch FROM by) * 1000000)::bigint WHERE signature LIKE '% resolved';
    UPDATE signature_releases SET signature = split_part(signature, ' ', 1) || ' '
                                  || split_part(signature, ' ', 2)::bigint - (extract(epoch FROM by) * 1000000)::bigint
     WHERE signature ~ ' [0-9]+$';
    UPDATE type_releases SET last_at = last_at - by;
    UPDATE signature_states s
       SET facts = (pg_temp.earlier(s.facts::jsonb, by) || jsonb_build_object('changes', (
               SELECT coalesce(jsonb_agg(jsonb_build_array(c -> 0, pg_temp.earlier(c -> 1, by), pg_temp.earlier(c -> 2, by)) ORDER BY place), '[]')
                 FROM jsonb_array_elements(s.facts::jsonb -> 'changes') WITH ORDINALITY AS changes (c, place))))::text;
    -- By way of another age: a minute must not come upon one that has not moved yet.
    UPDATE minutes SET minute = date_trunc('minute', minute - by) - interval '1000 years';
    UPDATE minutes SET minute = minute + interval '1000 years';
    UPDATE signature_minutes SET minute = date_trunc('minute', minute - by) - interval '1000 years';
    UPDATE signature_minutes SET minute = minute + interval '1000 years';
END
$$
