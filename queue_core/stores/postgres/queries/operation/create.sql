-- Write a new operation, preparing and without members; returns its number.
INSERT INTO operations (verb, label, author_user, author_host, why, delay, spread, queue, priority, canary, rate, stop_percent,
                        signatures)
VALUES (%(verb)s, %(label)s, %(user)s, %(host)s, %(why)s, %(delay)s, %(spread)s, %(queue)s, %(priority)s, %(canary)s, %(rate)s,
        %(stop_percent)s, %(signatures)s::text[])
RETURNING number
