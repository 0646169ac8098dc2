-- Be told of queues that got jobs in a caller's transaction.
LISTEN queue_core_committed
