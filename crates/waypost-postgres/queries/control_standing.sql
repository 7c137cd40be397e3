-- inspect: the columns that a claim uses. Served by the keys of control and instances.
SELECT c.execution, c.owner, coalesce(i.alive_until > waypost_now(), false), c.wakes_from, c.requires
FROM control AS c LEFT JOIN instances AS i ON i.id = c.owner
WHERE c.execution = ANY ($1::int8[])
