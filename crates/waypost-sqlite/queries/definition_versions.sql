-- definitions: the versions of a workflow before one (?2), newest first. Served by definitions_listed.
SELECT d.name, d.version, d.hash, d.created_at, c.version
FROM current_versions AS c CROSS JOIN definitions AS d ON d.name = c.name
WHERE c.name = ?1 AND d.version < ?2 ORDER BY d.version DESC LIMIT ?3
