-- tasks: workers that were not heard of for a day. Scans workers.
DELETE FROM workers WHERE seen_at < (SELECT waypost_now()) - 86400000
