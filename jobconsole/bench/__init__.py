"""How fast a mode is on this machine: enqueue, drain and latency of jobs that do nothing; everything else is real."""
