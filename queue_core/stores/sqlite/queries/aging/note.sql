-- Note the last arrival in a queue with aging.
UPDATE queues SET arrival_us = ? WHERE number = ?
