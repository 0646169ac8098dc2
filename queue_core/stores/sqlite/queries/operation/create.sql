-- Write a new operation.
INSERT INTO operations (verb, label, user, host, why, delay, spread, queue, priority, canary, rate, stop_percent, signatures, state,
                        created_at, updated_at)
VALUES (:verb, :label, :user, :host, :why, :delay, :spread, :queue, :priority, :canary, :rate, :stop_percent, :signatures,
        'preparing', :now, :now)
RETURNING number
