"""What is shown of jobs, operations and schedules, for the console and the command line."""
