"""Filters that no store can answer alone: by what is known of error signatures, and by texts of dead jobs."""
