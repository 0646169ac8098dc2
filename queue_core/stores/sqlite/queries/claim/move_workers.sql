-- Move heartbeats along with a clock that was set.
UPDATE workers SET heartbeat_at = heartbeat_at + :seconds
