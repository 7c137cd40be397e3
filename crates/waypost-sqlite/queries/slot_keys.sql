-- audit: every key that somebody waits for. Scans slots_waiting.
SELECT DISTINCT key FROM slots WHERE holding = 0
