-- definition: one version of a workflow. Served by the unique key.
SELECT name, version, hash, canonical FROM definitions WHERE name = $1 AND version = $2
