-- definitions: the newest version of each workflow after a name (?1, NULL for all). Leaps from one to
-- the next, however many versions there are. Served by definitions_listed.
WITH RECURSIVE next (name) AS (
    SELECT CASE WHEN ?1 IS NULL THEN (SELECT min(name) FROM definitions)
                ELSE (SELECT min(name) FROM definitions WHERE name > ?1) END
    UNION ALL
    SELECT (SELECT min(name) FROM definitions WHERE name > next.name)
    FROM next WHERE next.name IS NOT NULL
    LIMIT ?2
)
SELECT d.name, d.version, d.hash, d.created_at, c.version
FROM next CROSS JOIN definitions AS d INDEXED BY definitions_listed ON d.name = next.name
CROSS JOIN current_versions AS c ON c.name = d.name
WHERE d.version = (SELECT max(version) FROM definitions WHERE name = next.name)
ORDER BY next.name
