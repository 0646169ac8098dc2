"""Claims, and the heartbeat that keeps their leases."""
