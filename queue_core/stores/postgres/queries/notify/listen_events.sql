-- Be told of lifecycle events.
LISTEN queue_core_events
