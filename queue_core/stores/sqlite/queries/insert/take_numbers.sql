-- Reserve numbers of arrival.
UPDATE counters SET seq = seq + ?
