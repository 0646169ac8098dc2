-- Skip to the ceiling, below which tokens may have been given out by commits that were lost, and raise it.
UPDATE counters SET token = token_ceiling, token_ceiling = token_ceiling + ?
