-- Be told of workers that were given orders.
LISTEN queue_core_orders
