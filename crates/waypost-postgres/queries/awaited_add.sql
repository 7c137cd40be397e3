-- append: messages that nodes wait for. Served by the key of outbox_awaited.
INSERT INTO outbox_awaited (execution, seq, mark) SELECT * FROM unnest($1::int8[], $2::int8[], $3::int8[])
