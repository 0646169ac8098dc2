"""Durable stores; concrete ones are opened by queue_core.backends and imported by no other module."""
