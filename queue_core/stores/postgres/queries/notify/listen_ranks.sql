-- Hear of ranks that came back to where claims may have passed.
LISTEN queue_core_ranks
