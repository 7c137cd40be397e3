-- tasks: workers that are alive or were within the last hour. Scans workers.
SELECT id, through, seen_at, alive_until IS NOT NULL AND alive_until > (SELECT waypost_now()),
       alive_until IS NULL, capacity, running, name, handlers
FROM workers WHERE seen_at > (SELECT waypost_now()) - 3600000
ORDER BY id
