-- Move the times before which rates of operations allow no step along with a clock that was set.
UPDATE operations INDEXED BY operations_unfinished
   SET next_at = next_at + :seconds
 WHERE finished_at IS NULL AND next_at > 0.0
