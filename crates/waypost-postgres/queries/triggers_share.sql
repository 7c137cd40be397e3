-- arrive: the states of triggers, which stay so until the commit. Served by the key of triggers.
SELECT number, revision, state, waypost_now() FROM triggers
WHERE number = ANY ($1::int8[]) ORDER BY number FOR KEY SHARE
