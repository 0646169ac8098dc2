"""The client for callers without asyncio."""
