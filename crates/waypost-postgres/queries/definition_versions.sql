-- definitions: the versions of a workflow before one ($2), newest first. Served by the unique key.
SELECT name, version, hash, created_at FROM definitions
WHERE name = $1 AND version < $2 ORDER BY version DESC LIMIT $3
