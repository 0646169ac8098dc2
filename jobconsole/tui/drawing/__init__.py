"""Pure drawing: records in, lines of text with tones out."""
