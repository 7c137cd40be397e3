-- deliver: mail that came when its addressee had ended. Served by inbox_by_execution.
DELETE FROM inbox AS i
WHERE i.execution = ANY ($1::int8[])
  AND (SELECT true FROM control AS c WHERE c.execution = i.execution) IS NULL
