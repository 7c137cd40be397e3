-- define: the next version of a workflow, unless the content is known. Under the lock of the workflow's
-- row in current_versions; an instance of an older version may still be faster. Served by the keys of
-- definitions.
INSERT INTO definitions (hash, name, version, canonical, created_at)
SELECT $1, $2, coalesce((SELECT max(d.version) FROM definitions AS d WHERE d.name = $2), 0) + 1, $3,
       waypost_now()
ON CONFLICT DO NOTHING
