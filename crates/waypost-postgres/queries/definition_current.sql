-- current: the current version of a workflow, without its content. Served by the unique key of
-- definitions and that of current_versions.
SELECT name, version, hash, created_at, version FROM definitions
WHERE name = $1 AND version = coalesce(
    (SELECT c.version FROM current_versions AS c WHERE c.name = $1),
    (SELECT max(n.version) FROM definitions AS n WHERE n.name = $1)
)
