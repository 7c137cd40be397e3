-- definition: one version of a workflow, or its newest where $2 is NULL. Served by the unique key.
SELECT name, version, hash, canonical FROM definitions
WHERE name = $1
  AND version = coalesce($2::int8, (SELECT max(d.version) FROM definitions AS d WHERE d.name = $1))
