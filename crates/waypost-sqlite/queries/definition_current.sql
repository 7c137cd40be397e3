-- current: the current version of a workflow, without its content. Served by definitions_listed.
SELECT d.name, d.version, d.hash, d.created_at, c.version
FROM current_versions AS c CROSS JOIN definitions AS d INDEXED BY definitions_listed
  ON d.name = c.name AND d.version = c.version
WHERE c.name = ?1
