"""Redis: ready sets, wake-ups and events."""
