"""How this store reaches the server: connections, what runs on them, and what ends in time."""
