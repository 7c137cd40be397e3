-- definitions: the newest version of each workflow after a name ($1, NULL for all). Leaps from one to the
-- next, however many versions there are. Served by the unique key of definitions
-- and that of current_versions.
WITH RECURSIVE next (name) AS (
    (SELECT name FROM definitions WHERE $1::bytea IS NULL OR name > $1 ORDER BY name LIMIT 1)
    UNION ALL
    SELECT (SELECT d.name FROM definitions AS d WHERE d.name > next.name ORDER BY d.name LIMIT 1)
    FROM next WHERE next.name IS NOT NULL
), page AS (
    SELECT name FROM next WHERE name IS NOT NULL LIMIT $2
)
SELECT d.name, d.version, d.hash, d.created_at,
       coalesce((SELECT c.version FROM current_versions AS c WHERE c.name = d.name), d.version)
FROM page CROSS JOIN LATERAL (
    SELECT * FROM definitions WHERE definitions.name = page.name ORDER BY version DESC LIMIT 1
) AS d
ORDER BY d.name
