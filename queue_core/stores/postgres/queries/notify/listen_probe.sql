-- Be told of probes: notifications that only show that they arrive.
LISTEN queue_core_probe
