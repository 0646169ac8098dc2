"""Widgets that draw by lines; each file holds one."""
