-- define: the next version of a workflow, unless the content is known. Served by the keys of
-- definitions.
INSERT INTO definitions (hash, name, version, canonical, created_at)
SELECT ?1, ?2, coalesce((SELECT max(version) FROM definitions WHERE name = ?2), 0) + 1, ?3, ?4
WHERE true
ON CONFLICT (hash) DO NOTHING
