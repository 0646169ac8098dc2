-- Be told of queues with ready jobs.
LISTEN queue_core_ready
