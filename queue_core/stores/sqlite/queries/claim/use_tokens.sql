-- Give out tokens.
UPDATE counters SET token = token + ?
