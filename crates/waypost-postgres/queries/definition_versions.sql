-- definitions: the versions of a workflow before one ($2), newest first. Served by the unique key of
-- definitions and that of current_versions.
SELECT name, version, hash, created_at, coalesce(
    (SELECT c.version FROM current_versions AS c WHERE c.name = $1),
    (SELECT max(n.version) FROM definitions AS n WHERE n.name = $1)
)
FROM definitions
WHERE name = $1 AND version < $2 ORDER BY version DESC LIMIT $3
