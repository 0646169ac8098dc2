-- Write a new operation as operation/create does, but under a negative number of its own: a number of the sequence would be
-- lost with the transaction, and leave a gap in the list of operations.
INSERT INTO operations (number, verb, label, author_user, author_host, why, delay, spread, queue, priority, canary, rate,
                        stop_percent, signatures) OVERRIDING SYSTEM VALUE
VALUES (-1 - floor(random() * 2e9)::int, %(verb)s, %(label)s, %(user)s, %(host)s, %(why)s, %(delay)s, %(spread)s, %(queue)s,
        %(priority)s, %(canary)s, %(rate)s, %(stop_percent)s, %(signatures)s::text[])
RETURNING number
