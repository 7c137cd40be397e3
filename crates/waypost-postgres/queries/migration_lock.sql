-- migrate: one changes the layout at a time. Held until the connection ends.
SELECT pg_advisory_lock(hashtextextended('waypost migrations of ' || current_setting('search_path'), 0))
