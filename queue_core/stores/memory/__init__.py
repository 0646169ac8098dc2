"""The reference implementation, in plain dictionaries."""
