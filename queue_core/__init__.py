"""A job queue that does not lose a job."""
