-- projector, list: the number of a workflow. Served by the unique key of workflows.
SELECT id FROM workflows WHERE name = ?1
