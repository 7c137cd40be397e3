-- claim_messages, claim, open: messages that an instance has claimed, or that any has (?2 NULL). Served by
-- outbox_claimed.
SELECT place, endpoint, due FROM outbox
WHERE claim IS NOT NULL AND state = 0 AND due > ?1 AND (?2 IS NULL OR claimer = ?2)
