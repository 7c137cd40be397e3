-- claim: signals that are not kept any longer. Served by published_expired.
DELETE FROM published WHERE expires_at <= (SELECT waypost_now())
