-- The last arrival in a queue with aging.
SELECT arrival_us FROM queues WHERE number = ?
