-- A node ends with its last change: one column instead of two. Statuses from 4 on are settled.
DROP VIEW node_executions;
UPDATE node_rows SET updated_at = completed_at WHERE updated_at IS NULL;
ALTER TABLE node_rows DROP COLUMN completed_at, ALTER COLUMN updated_at SET NOT NULL;

CREATE VIEW node_executions AS
SELECT waypost_text(e.key || '/' || n.path) AS id,
       waypost_text(e.key) AS execution_id,
       waypost_text(n.path) AS node_id,
       waypost_text(coalesce(d.label, n.path)) AS node_label,
       d.family AS node_type,
       waypost_text(d.kind) AS node_sub_type,
       waypost_text(d.registry) AS registry_id,
       waypost_node_status(n.status) AS status,
       n.started_at AS started_at,
       CASE WHEN n.status >= 4 THEN n.updated_at END AS completed_at,
       CASE WHEN n.status >= 4 THEN n.updated_at - n.started_at END AS duration,
       CASE WHEN n.attempt IS NOT NULL THEN waypost_json(coalesce(n.input, d.config, '{}')) END
           AS input_data,
       waypost_json(n.output) AS output_data,
       waypost_json(d.config) AS node_config,
       json_build_object('workflow', waypost_text(e.workflow), 'generation', e.generation,
                         'attempt', n.attempt, 'branch', waypost_text(n.branch)) AS execution_context,
       waypost_json(n.failure) ->> 'message' AS error,
       waypost_json(n.failure) AS error_details,
       greatest(coalesce(n.attempt, 1) - 1, 0) AS retry_count,
       waypost_json('['::bytea || n.retries || ']'::bytea) AS retry_details,
       coalesce(n.created_at, n.started_at) AS created_at,
       n.updated_at AS updated_at
FROM node_rows AS n
JOIN execution_rows AS e ON e.execution = n.execution
LEFT JOIN definition_nodes AS d ON d.definition = e.definition AND d.node = n.node;
