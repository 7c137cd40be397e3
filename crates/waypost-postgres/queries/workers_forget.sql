-- tasks: workers without a sign of life for a day. Scans workers.
DELETE FROM workers WHERE seen_at < (SELECT waypost_now()) - 86400000
