-- Be told of whether the sweeps have a leader.
LISTEN queue_core_leader
