-- The conditions of filters, each named by its field and operator. Values come in as parameters only.

-- [type =]
j.type = {value}
-- [type ~]
contains_text(j.type, {value})
-- [queue =]
q.name = {value}
-- [queue ~]
contains_text(q.name, {value})
-- [error =]
j.error = {value}
-- [error ~]
contains_text(j.error, {value})
-- [signature =]
j.signature >= {value} AND j.signature < {signature_end}
-- [whole signature]
j.signature = {value}
-- [tag =]
EXISTS (SELECT 1 FROM json_each(j.tags) t WHERE t.value = {value})
-- [tag ~]
EXISTS (SELECT 1 FROM json_each(j.tags) t WHERE contains_text(t.value, {value}))
-- [id =]
j.id >= {low} AND j.id < {high}
-- [priority =]
j.priority = {value}
-- [priority <]
j.priority < {value}
-- [priority >]
j.priority > {value}
-- [age <]
j.updated_at > :now - {value}
-- [age >]
j.updated_at < :now - {value}
-- [retries =]
j.retry_count = {value}
-- [retries <]
j.retry_count < {value}
-- [retries >]
j.retry_count > {value}
-- [worker =]
j.worker = {value}
-- [worker ~]
contains_text(j.worker, {value})
-- [died =]
-- outside the trash a dead job was changed last when it died, by which lists are ordered
j.state = 'dead' AND j.updated_at >= {since} AND j.updated_at < {until}
-- [trashed died =]
j.state = 'trashed' AND j.finished_at >= {since} AND j.finished_at < {until}
-- [host =]
host_of(j.worker) = {value}
-- [host ~]
contains_text(host_of(j.worker), {value})
-- [release =]
j.worker IS NOT NULL AND j.release = (SELECT r.number FROM releases r WHERE r.name = {value})
-- [release ~]
j.worker IS NOT NULL AND j.release IN (SELECT r.number FROM releases r WHERE contains_text(r.name, {value}))
-- [word ~]
contains_text(j.error, {value}) OR contains_text(p.payload, {value}) OR contains_text(j.type, {value})
OR EXISTS (SELECT 1 FROM json_each(j.tags) t WHERE contains_text(t.value, {value}))
OR substr(replace(j.id, '-', ''), 1, length({digits})) = {digits}
-- [text ~]
contains_text(j.error, {value}) OR contains_text(p.payload, {value})
OR contains_text((SELECT a.traceback FROM job_attempts a WHERE a.job = j.number ORDER BY a.token DESC LIMIT 1), {value})
-- [signatures =]
j.signature IN (SELECT value FROM json_each({members}))
-- [ids =]
j.id IN (SELECT value FROM json_each({members}))
-- [payload =]
payload_matches(p.payload, {path}, {operator}, {value})
-- [payload ~]
payload_matches(p.payload, {path}, {operator}, {value})
-- [payload <]
payload_matches(p.payload, {path}, {operator}, {value})
-- [payload >]
payload_matches(p.payload, {path}, {operator}, {value})

-- [yes]
({condition})
-- [not]
({condition}) IS NOT TRUE
-- [and]
AND
-- [everything]
true
-- [newest]
j.updated_at DESC, j.number DESC
-- [oldest]
j.updated_at, j.number
-- [after newest]
(j.updated_at, j.number) < (:at, :number)
-- [after oldest]
(j.updated_at, j.number) > (:at, :number)
-- [before]
j.updated_at < :before
-- [payloads]
 CROSS JOIN payloads p ON p.number = j.number
-- [from lists]
INDEXED BY jobs_listed
-- [state in lists]
j.state = :state
-- [from ids]
INDEXED BY sqlite_autoindex_jobs_1
-- [state by ids]
+j.state = :state
-- [from signatures]
INDEXED BY jobs_dead
-- [state by signatures]
j.state IN ('dead', 'trashed') AND j.state = :state
