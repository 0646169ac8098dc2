-- The last token that was given out, and the last that may be.
SELECT token, token_ceiling FROM counters
