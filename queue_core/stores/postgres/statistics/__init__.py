"""Totals, error signatures and releases."""
