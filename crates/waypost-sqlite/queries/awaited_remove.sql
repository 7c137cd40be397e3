-- append, claim_messages, settle_messages: the execution has the mail. Served by the key of outbox_awaited.
DELETE FROM outbox_awaited WHERE execution = ?1 AND seq = ?2
