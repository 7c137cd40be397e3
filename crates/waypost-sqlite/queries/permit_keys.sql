-- inspect: every key that an execution waits for. Scans permits_waiting.
SELECT DISTINCT key FROM permits WHERE holding = 0
