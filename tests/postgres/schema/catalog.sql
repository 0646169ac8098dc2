-- Everything that is made in a schema, as texts without its name; the days of the history aside, and the names of constraints NOT
-- NULL, which PostgreSQL 18 has and which keep those of their tables and columns before a takeover.
WITH here AS (
    SELECT c.* FROM pg_class c
     WHERE c.relnamespace = %(schema)s::regnamespace AND c.relname !~ '^job_history_[0-9]{8}'
)
SELECT concat_ws(' ', 'relation', relname, relkind, relpersistence, reloptions::text) FROM here
UNION ALL
SELECT concat_ws(' ', 'column', c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
                 (SELECT collname FROM pg_collation WHERE oid = a.attcollation), pg_get_expr(d.adbin, d.adrelid))
  FROM here c JOIN pg_attribute a ON a.attrelid = c.oid LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
 WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind NOT IN ('i', 'I')
UNION ALL
SELECT concat_ws(' ', 'constraint', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint
 WHERE contype <> 'n' AND connamespace = %(schema)s::regnamespace AND conrelid::regclass::text !~ 'job_history_[0-9]{8}'
UNION ALL
SELECT concat_ws(' ', 'index', pg_get_indexdef(oid)) FROM here WHERE relkind IN ('i', 'I')
UNION ALL
SELECT concat_ws(' ', 'view', relname, pg_get_viewdef(oid)) FROM here WHERE relkind = 'v'
UNION ALL
SELECT concat_ws(' ', 'sequence', relname, s.seqmax, s.seqcycle, s.seqincrement) FROM here JOIN pg_sequence s ON s.seqrelid = here.oid
UNION ALL
SELECT concat_ws(' ', 'function', pg_get_functiondef(oid)) FROM pg_proc WHERE pronamespace = %(schema)s::regnamespace
UNION ALL
SELECT concat_ws(' ', 'value', t.typname, e.enumsortorder, e.enumlabel) FROM pg_enum e JOIN pg_type t ON t.oid = e.enumtypid
 WHERE t.typnamespace = %(schema)s::regnamespace
