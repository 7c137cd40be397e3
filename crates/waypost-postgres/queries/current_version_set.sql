-- define: moves the pointer of a workflow. Served by the key of current_versions.
UPDATE current_versions SET version = $2 WHERE name = $1
