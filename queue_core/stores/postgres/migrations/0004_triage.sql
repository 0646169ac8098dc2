-- What triage keeps.

-- How carefully operations go on.
ALTER TABLE {schema}.operations
    -- an attempt of a canary that fails counts as if its job had died
    ADD COLUMN first_failure boolean NOT NULL DEFAULT false,
    -- members of its first steps; empty: there is only the canary, if any
    ADD COLUMN ramp int[] NOT NULL DEFAULT '{}',
    -- no step before this
    ADD COLUMN begin_at timestamptz,
    -- no step before a live worker announces this release; null: it waits for none
    ADD COLUMN when_release text CONSTRAINT operations_release_check CHECK (when_release <> '' AND length(when_release) <= 200),
    -- what became of the jobs that it has retried, as the leader last counted; null: not counted yet
    ADD COLUMN outcomes int[] CONSTRAINT operations_outcomes_check CHECK (cardinality(outcomes) = 6),
    -- nothing more becomes known of them
    ADD COLUMN counted boolean NOT NULL DEFAULT true;
CREATE INDEX operations_uncounted ON {schema}.operations (number) WHERE NOT counted;

-- Stacks of running jobs: asked for, and as their workers have answered. The last of each job, and the last of all.
CREATE TABLE {schema}.job_stacks (
    number int GENERATED ALWAYS AS IDENTITY CONSTRAINT job_stacks_pkey PRIMARY KEY,
    job_id uuid NOT NULL,
    worker text NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- null: the worker has not answered
    taken_at timestamptz,
    -- a JSON object
    stack text,
    CONSTRAINT job_stacks_taken_check CHECK ((taken_at IS NULL) = (stack IS NULL))
);
CREATE INDEX job_stacks_job ON {schema}.job_stacks (job_id, number);
CREATE INDEX job_stacks_asked ON {schema}.job_stacks (worker) WHERE taken_at IS NULL;
