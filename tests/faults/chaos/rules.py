"""What a run is made with: how long leases are, and what its queues allow."""

LEASE = 4.0
"""Seconds."""
NARROW = 3
"""Jobs of the queue "narrow" that may run at once."""
QUEUES = {"ordered": {"limit": 2000}, "narrow": {"limit": 300, "concurrency": NARROW}}
