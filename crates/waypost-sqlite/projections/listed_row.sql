-- list: one row of a page. Served by the keys of execution_rows, definitions, workflows and paths, and
-- by wait_rows_open.
SELECT {columns}, e.execution, e.key, w.name, d.version, e.created_at, e.labels, e.failure,
       (SELECT min(coalesce(o.resume_at, o.expires_at)) FROM wait_rows AS o
        WHERE o.execution = e.execution AND o.status = 0)
FROM execution_rows AS e
CROSS JOIN definitions AS d ON d.id = e.definition
CROSS JOIN workflows AS w ON w.id = e.workflow
LEFT JOIN paths AS current_node ON current_node.id = e.current_node
WHERE e.execution = ?1
