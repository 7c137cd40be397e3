-- inspect: every key that somebody waits for. Scans permits_waiting.
SELECT DISTINCT key FROM permits WHERE holding = 0
