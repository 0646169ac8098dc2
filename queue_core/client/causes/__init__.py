"""Why jobs died: what they have in common, and how they differ from jobs that completed."""
