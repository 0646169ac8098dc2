"""The command line. Nothing is imported here on purpose: every command loads only what it needs."""
