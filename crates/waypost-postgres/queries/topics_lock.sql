-- append, publish, claim: one at a time routes the signals of a topic, in one order. The first number is ours
-- among advisory locks.
SELECT pg_advisory_xact_lock(1463898195, k.key)
FROM (SELECT DISTINCT hashtext(encode(t.topic, 'hex')) AS key FROM unnest($1::bytea[]) AS t (topic)
      ORDER BY key) AS k
