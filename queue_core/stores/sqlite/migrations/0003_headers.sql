-- Headers of jobs: a JSON object of texts, null = none. Beside the payload, as what never changes of a job.

ALTER TABLE payloads ADD COLUMN headers TEXT;
