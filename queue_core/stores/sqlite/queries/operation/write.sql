-- Write what changes of an operation.
UPDATE operations
   SET state = :state, note = :note, total = :total, done = :done, processed = :processed, skipped = :skipped, errored = :errored,
       barrier = :barrier, stop_percent = :stop_percent, updated_at = :updated_at, started_at = :started_at,
       finished_at = :finished_at, next_at = :next_at
 WHERE number = :number
