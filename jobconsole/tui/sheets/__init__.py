"""Sheets over a view: confirm, change, move, edit."""
