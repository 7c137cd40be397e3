-- When places were last reserved in a tree: rows of trees that have ended are deleted when that is long ago.
ALTER TABLE trees ADD COLUMN used_at INTEGER NOT NULL DEFAULT 0;
UPDATE trees SET used_at = CAST(unixepoch('subsec') * 1000 AS INTEGER);
