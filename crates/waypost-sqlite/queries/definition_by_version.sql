-- definition: one version of a workflow, or its newest where ?2 is NULL. Served by the primary key.
SELECT name, version, hash, canonical FROM definitions
WHERE name = ?1 AND version = coalesce(?2, (SELECT max(version) FROM definitions WHERE name = ?1))
