-- Filters that operators have saved by name, with the last changes of each, as JSON (queue_core.model.filters.saved). A removed one
-- stays without its text, so that it can be brought back.
CREATE TABLE {schema}.saved_filters (
    name text CONSTRAINT saved_filters_pkey PRIMARY KEY CONSTRAINT saved_filters_name_check CHECK (name <> '' AND length(name) <= 64),
    -- the operation that changed it last
    changed_by int NOT NULL,
    filter text NOT NULL CONSTRAINT saved_filters_filter_check CHECK (length(filter) <= 100000)
);
