"""Durable stores; concrete ones are opened by queue_core.opening and imported by nobody else."""
