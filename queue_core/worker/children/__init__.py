"""Processes of tasks that run in one: the worker's side, its pool of them, and what they run."""
