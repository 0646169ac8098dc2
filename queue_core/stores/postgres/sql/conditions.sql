-- The conditions of filters, each named by its field and operator. Values come in as parameters only.

-- [status =]
v.status = {value}::{schema}.job_status
-- [type =]
v.type = {value}
-- [type ~]
v.type ILIKE {like}
-- [queue =]
v.queue = {value}
-- [queue ~]
v.queue ILIKE {like}
-- [error =]
v.error = {value}
-- [error ~]
v.error ILIKE {like}
-- [signature =]
-- 'g' is the first character behind all hexadecimal digits
v.signature >= {value} AND v.signature < {value} || 'g'
-- [whole signature]
-- leads to them in the order of lists
v.signature = {value}
-- [tag =]
{value} = ANY (v.tags)
-- [tag ~]
EXISTS (SELECT FROM unnest(v.tags) AS tag WHERE tag ILIKE {like})
-- [id =]
v.id BETWEEN rpad({value}, 32, '0')::uuid AND rpad({value}, 32, 'f')::uuid
-- [priority =]
v.priority = {value}::int
-- [priority <]
v.priority < {value}::int
-- [priority >]
v.priority > {value}::int
-- [age <]
v.updated_at > now() - make_interval(secs => least({value}::float8, 1e11))
-- [age >]
v.updated_at < now() - make_interval(secs => least({value}::float8, 1e11))
-- [retries =]
v.retry_count = {value}::int
-- [retries <]
v.retry_count < {value}::int
-- [retries >]
v.retry_count > {value}::int
-- [worker =]
v.worker = {value}
-- [worker ~]
v.worker ILIKE {like}
-- [died =]
v.status = 'dead' AND v.finished_at >= {since}::timestamptz AND v.finished_at < {until}::timestamptz
-- [host =]
regexp_replace(v.worker, ':[^:]*:[^:]*$', '') = {value}
-- [host ~]
regexp_replace(v.worker, ':[^:]*:[^:]*$', '') ILIKE {like}
-- [release =]
v.release = (SELECT r.id FROM {schema}.releases r WHERE r.name = {value})
-- [release ~]
v.release IN (SELECT r.id FROM {schema}.releases r WHERE r.name ILIKE {like})
-- [word ~]
v.error ILIKE {like} OR v.payload ILIKE {like} OR v.type ILIKE {like}
OR EXISTS (SELECT FROM unnest(v.tags) AS tag WHERE tag ILIKE {like})
OR replace(v.id::text, '-', '') LIKE {begins}
-- [text ~]
v.error ILIKE {like} OR v.payload ILIKE {like}
OR (SELECT a.traceback FROM {schema}.job_attempts a WHERE a.job_id = v.id ORDER BY a.token DESC LIMIT 1) ILIKE {like}
-- [signatures =]
v.signature = ANY (string_to_array({value}, ' '))
-- [ids =]
v.id = ANY (string_to_array({value}, ' ')::uuid[])
-- [payload =]
{schema}.payload_matches(v.payload, {path}::text[], '=', {value}, {number}::numeric)
-- [payload ~]
{schema}.payload_matches(v.payload, {path}::text[], '~', {value}, {number}::numeric)
-- [payload <]
{schema}.payload_matches(v.payload, {path}::text[], '<', {value}, {number}::numeric)
-- [payload >]
{schema}.payload_matches(v.payload, {path}::text[], '>', {value}, {number}::numeric)

-- [yes]
({condition})
-- [not]
({condition}) IS NOT TRUE
-- [and]
AND
-- [everything]
true
-- [no slice]
NULL::int
-- [slice]
CASE WHEN v.updated_at > (SELECT to_timestamp(since) - interval '1 minute' FROM bounds)
      AND floor(date_part('epoch', v.updated_at) / 60) * 60 > (SELECT since - 60 FROM bounds)
     THEN least(greatest(floor((floor(date_part('epoch', v.updated_at) / 60) * 60 - (SELECT since FROM bounds)) * %(slices)s
                               / (SELECT seconds FROM bounds)), 0), %(slices)s - 1)::int END
-- [newest]
v.updated_at DESC, v.id DESC
-- [oldest]
v.updated_at, v.id
-- [all newest]
updated_at DESC, id DESC
-- [all oldest]
updated_at, id
-- [after newest]
v.updated_at <= %(at)s AND (v.updated_at, v.id) < (%(at)s, %(id)s::uuid)
-- [after oldest]
v.updated_at >= %(at)s AND (v.updated_at, v.id) > (%(at)s, %(id)s::uuid)
-- [before]
v.updated_at < %(before)s
-- [union]
UNION ALL
