-- Be told of jobs that become due soon.
LISTEN queue_core_due
