-- Return who leads these duties, or has led them last, and for how many seconds from now.
SELECT duty, worker, (extract(epoch FROM expires_at) - extract(epoch FROM now()))::float8 FROM leaders WHERE duty = ANY (%(duties)s::text[])
