"""Screens: the views, the sheets over them, and the help."""
