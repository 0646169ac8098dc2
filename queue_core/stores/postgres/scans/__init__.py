"""Scans that leave out rows which have ended."""
