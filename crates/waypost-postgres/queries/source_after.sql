-- tables: a page of the rows after a transaction and a key, whose transactions have ended. Served by an index of the
-- owner of the table on the column of the transaction and the key, if there is one.
SELECT key, bytes, item, xid, count FROM (
    SELECT n, key, xid, octet_length(item)::int8 AS bytes,
        CASE WHEN octet_length(item) <= $2::int8 THEN item END AS item,
        sum(least(octet_length(item), $2::int8)) OVER (ORDER BY n) AS total, count(*) OVER () AS count
    FROM (
        SELECT row_number() OVER (ORDER BY t.{xid}, t.{key}) AS n, t.{key}::text AS key, t.{xid}::text AS xid,
            row_to_json(t)::text AS item
        FROM (
            SELECT * FROM {table} AS t
            WHERE t.{xid} >= $4::text::xid8 AND t.{xid} < pg_snapshot_xmin(pg_current_snapshot())
                AND (t.{xid} > $4::text::xid8 OR $5::text IS NULL OR t.{key} > $5::text::{type})
            ORDER BY t.{xid}, t.{key} LIMIT $1
        ) AS t
    ) AS page
) AS sized WHERE n = 1 OR total <= $3::int8 ORDER BY n
