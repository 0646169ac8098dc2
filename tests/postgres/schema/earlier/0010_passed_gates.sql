-- Up to which place in the order of arrival an ordering key has nobody who holds it or waits for it; 0 = not known. Kept for keys whose
-- gates took long to open, among many jobs that had ended.
ALTER TABLE order_gates ADD COLUMN passed bigint NOT NULL DEFAULT 0;
