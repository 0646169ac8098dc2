-- Filters that operators have saved by name, with the last changes of each, as JSON (queue_core.model.filters.saved). A removed one
-- stays without its text, so that it can be brought back.
CREATE TABLE saved_filters (
    name TEXT PRIMARY KEY CONSTRAINT saved_filters_name_check CHECK (length(name) BETWEEN 1 AND 64),
    -- the operation that changed it last
    changed_by INTEGER NOT NULL,
    filter TEXT NOT NULL CONSTRAINT saved_filters_filter_check CHECK (length(filter) <= 100000)
) STRICT, WITHOUT ROWID;
