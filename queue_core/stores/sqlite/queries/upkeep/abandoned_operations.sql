-- End the operations that were being prepared and whose author is gone.
UPDATE operations INDEXED BY operations_unfinished
   SET state = 'cancelled', note = :note, updated_at = :now, finished_at = :now
 WHERE finished_at IS NULL AND state = 'preparing' AND updated_at < :before
