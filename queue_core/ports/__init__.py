"""The protocols between a queue and its parts, described as changes of state."""
