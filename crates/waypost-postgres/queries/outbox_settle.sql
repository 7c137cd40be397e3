-- settle_messages: what became of messages. Served by the key of outbox.
UPDATE outbox AS o SET state = s.state, attempts = s.attempts, due = coalesce(s.due, o.due), claim = NULL,
    status = s.status, took = s.took, reason = s.reason,
    settled_at = CASE WHEN s.state > 0 THEN $8::int8 END
FROM unnest($1::int8[], $2::int2[], $3::int8[], $4::int8[], $5::int4[], $6::int8[], $7::bytea[])
     AS s (place, state, attempts, due, status, took, reason)
WHERE o.place = s.place
