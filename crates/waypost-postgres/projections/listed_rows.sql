-- list: the rows of a page. Served by the key of execution_rows and by wait_rows_open.
SELECT {columns}, execution, key, workflow, version, created_at, labels, failure,
       (SELECT min(coalesce(o.resume_at, o.expires_at)) FROM wait_rows AS o
        WHERE o.execution = e.execution AND o.status = 0)
FROM execution_rows AS e WHERE execution = ANY($1) ORDER BY execution DESC
