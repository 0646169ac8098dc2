"""Records and pure decisions: states, retries, priorities, schedules, operations, filters."""
