-- rebuild: how much there is to do. To count many millions takes longer than a statement may: beyond the
-- first one it is as much as the server last reckoned. Scans frames.
SELECT greatest(
    (SELECT count(*) FROM (SELECT FROM frames LIMIT 1000000) AS first),
    (SELECT reltuples::int8 FROM pg_class WHERE oid = 'frames'::regclass)
)
