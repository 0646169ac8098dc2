-- Handlers that a worker gave up and that still run: they swallow their cancellation, or are threads, which cannot be ended.
ALTER TABLE workers ADD COLUMN stuck INTEGER NOT NULL DEFAULT 0;
