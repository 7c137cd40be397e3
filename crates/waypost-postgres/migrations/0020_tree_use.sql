-- When places were last reserved in a tree: rows of trees that have ended are deleted when that is long ago.
ALTER TABLE trees ADD COLUMN used_at bigint NOT NULL DEFAULT waypost_now();
