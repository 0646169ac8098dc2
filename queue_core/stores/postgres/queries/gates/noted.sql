-- Forget that keys were noted, whose gates are locked and opened by the next statement.
DELETE FROM order_checks
 WHERE ctid = ANY (ARRAY(SELECT c.ctid FROM order_checks c
                          WHERE c.queue_id || ' ' || c.key = ANY (%(gates)s::text[])))
