"""The stacks of running jobs."""
