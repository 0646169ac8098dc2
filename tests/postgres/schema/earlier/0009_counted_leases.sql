-- What a claim under a concurrency and a gate of an ordering key need, so as not to read again what ended before.

-- Claimed in a queue with a concurrency or a rate, by who has these rules; such claims come one after another. In the order of
-- their tokens, those that are younger than the last count are found without the many that ended before it.
ALTER TABLE leases ADD COLUMN counted boolean NOT NULL DEFAULT false;
CREATE INDEX leases_counted ON leases (queue_id, token) WHERE counted;
