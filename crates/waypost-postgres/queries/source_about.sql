-- tables: what the table of a source is, with a row for each of these columns that it has. Served by the catalogue.
SELECT c.oid::text, n.nspname LIKE 'pg\_%' OR n.nspname = 'information_schema',
    EXISTS (SELECT FROM pg_proc p WHERE p.pronamespace = n.oid AND p.proname = 'waypost_place'),
    a.attname::text, format_type(a.atttypid, NULL), a.attnotnull
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_attribute a
    ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attname::text = ANY ($3::text[])
WHERE n.nspname::text = $1 AND c.relname::text = $2 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
