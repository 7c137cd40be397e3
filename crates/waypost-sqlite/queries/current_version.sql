-- define: the current version of a workflow. Served by the primary key.
SELECT version FROM current_versions WHERE name = ?1
