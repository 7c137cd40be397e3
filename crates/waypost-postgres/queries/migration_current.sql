-- migrate: the layout, and the one that a build must know. Additive migrations have negative versions.
SELECT coalesce(max(abs(version)), 0), greatest(max(version), 0) FROM migrations
