-- trim_outbox: endpoints with more than so many pending messages. Walks outbox_due.
SELECT endpoint, count(*) FROM outbox WHERE state = 0 GROUP BY endpoint HAVING count(*) > ?1
