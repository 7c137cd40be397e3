-- latest: the newest version of a workflow, without its content. Served by definitions_listed.
SELECT name, version, hash, created_at FROM definitions
WHERE name = ?1 ORDER BY version DESC LIMIT 1
