SELECT pg_temp.pass_time(make_interval(secs => %(seconds)s))
