-- claim_messages: instance ?4 claims a message until ?3, or puts it off until then (?2 NULL). Served by the key of
-- outbox.
UPDATE outbox SET claim = ?2, due = ?3, claimer = ?4 WHERE place = ?1
