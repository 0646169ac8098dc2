-- Remove expired leases without a job: what a crash of the server between two asynchronous commits can leave.
DELETE FROM leases l
 WHERE l.expires_at < now() AND l.ctid BETWEEN %(first_place)s::tid AND %(last_place)s::tid
   AND (SELECT true FROM jobs j WHERE j.id = l.id) IS NULL
