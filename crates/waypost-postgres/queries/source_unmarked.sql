-- tables: a page of the rows without the mark. Served by an index of the owner of the table, if there is one.
SELECT key, bytes, item, NULL::text, count FROM (
    SELECT n, key, octet_length(item)::int8 AS bytes,
        CASE WHEN octet_length(item) <= $2::int8 THEN item END AS item,
        sum(least(octet_length(item), $2::int8)) OVER (ORDER BY n) AS total, count(*) OVER () AS count
    FROM (
        SELECT row_number() OVER (ORDER BY t.{order}, t.{key}) AS n, t.{key}::text AS key, row_to_json(t)::text AS item
        FROM (SELECT * FROM {table} AS t WHERE {unmarked} ORDER BY t.{order}, t.{key} LIMIT $1) AS t
    ) AS page
) AS sized WHERE n = 1 OR total <= $3::int8 ORDER BY n
