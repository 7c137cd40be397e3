-- define: the current version of a workflow, 0 where it has none. Deploys of the workflow wait here for
-- one another until the transaction ends. Served by the keys of current_versions and definitions.
INSERT INTO current_versions (name, version)
SELECT $1, coalesce((SELECT max(d.version) FROM definitions AS d WHERE d.name = $1), 0)
ON CONFLICT (name) DO UPDATE SET version = current_versions.version
RETURNING version
