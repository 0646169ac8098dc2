"""Numbers, times, glyphs and styled spans of text."""
