"""A real PostgreSQL and a real Redis-protocol server, started for one process and gone with it.

Nothing is imported here on purpose: the guard process starts through this package and has to start fast.
The public face is `jobconsole.embedded.servers.EmbeddedServers`.
"""
