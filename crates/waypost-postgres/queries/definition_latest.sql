-- latest: the newest version of a workflow, without its content. Served by the unique key of definitions.
SELECT name, version, hash, created_at FROM definitions WHERE name = $1 ORDER BY version DESC LIMIT 1
