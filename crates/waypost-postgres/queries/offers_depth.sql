-- tasks: how much waits, by handler, and for how long the oldest has. Scans task_offers.
SELECT handler, count(*), greatest((SELECT waypost_now()) - min(offered_at), 0) FROM task_offers
GROUP BY handler ORDER BY handler
