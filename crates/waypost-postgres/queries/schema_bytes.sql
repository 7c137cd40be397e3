-- bytes: the size of all tables of the store on disk, with their indexes.
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::int8
FROM pg_class AS c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
