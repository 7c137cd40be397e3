-- tables: the oldest transaction that may not have ended, at the snapshot of this one.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text
