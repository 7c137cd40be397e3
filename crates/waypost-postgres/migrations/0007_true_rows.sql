-- Read tables that show all of an execution: its variables, the path it took, its owner; of nodes their
-- rendered config, and when they were created and changed; of waits the ids of the API and when they expire.
--
-- Rows from before lack this. The sweeper derives them again: it starts from the first frame.
TRUNCATE execution_rows, node_rows, wait_rows, execution_documents;
UPDATE sweeper SET place = 0;

ALTER TABLE execution_rows ADD COLUMN owner bytea;
-- Where created_at is NULL it is started_at, and where updated_at is NULL it is completed_at. `input` is
-- NULL where the config has no expressions.
ALTER TABLE node_rows ADD COLUMN seq bigint NOT NULL, ADD COLUMN created_at bigint,
    ADD COLUMN updated_at bigint, ADD COLUMN deadline bigint, ADD COLUMN input bytea;
-- `variable` is a hash of the name, which may be longer than a row of an index.
CREATE TABLE variable_rows (
    execution bigint NOT NULL,
    variable bigint NOT NULL,
    name bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (execution, variable)
);

DROP VIEW executions, node_executions, execution_wait_states;

CREATE VIEW executions AS
SELECT waypost_text(e.key) AS id,
       waypost_text(e.workflow) AS workflow_id,
       e.version AS workflow_version,
       NULL::text AS trigger_id,
       NULL::text AS trigger_node_id,
       waypost_status(e.status) AS status,
       e.started_at AS started_at,
       e.completed_at AS completed_at,
       e.completed_at - coalesce(e.started_at, e.created_at) AS duration,
       e.nodes_executed AS nodes_executed,
       0 AS notifications_sent,
       json_build_object(
           'input', waypost_json(e.input),
           'variables', (SELECT coalesce(json_object_agg(waypost_text(v.name), waypost_json(v.value)
                                                         ORDER BY v.name), '{}')
                         FROM variable_rows AS v WHERE v.execution = e.execution),
           'nodes', (SELECT coalesce(json_object_agg(waypost_text(n.path), waypost_json(n.output)
                                                     ORDER BY n.path), '{}')
                     FROM node_rows AS n WHERE n.execution = e.execution AND n.output IS NOT NULL),
           'output', waypost_json(e.output),
           'path', (SELECT coalesce(json_agg(waypost_text(n.path) ORDER BY n.seq), '[]')
                    FROM node_rows AS n
                    WHERE n.execution = e.execution AND n.started_at IS NOT NULL),
           'metadata', json_build_object(
               'executionId', waypost_text(e.key), 'workflowId', waypost_text(e.workflow),
               'workflowVersion', e.version, 'triggerId', NULL, 'triggerNodeId', NULL,
               'currentNodeId', waypost_text(e.current_node), 'startedAt', e.started_at)) AS context,
       waypost_json(e.input) AS trigger_data,
       json_build_object('name', waypost_text(e.workflow), 'version', e.version,
                         'definition', encode(e.definition, 'hex')) AS workflow_metadata,
       json_build_object('number', e.execution, 'seq', e.seq, 'generation', e.generation,
                         'epoch', e.epoch, 'owner', waypost_text(e.owner), 'deadline', e.deadline,
                         'labels', coalesce(waypost_json(e.labels), '{}')) AS execution_metadata,
       waypost_text(e.error) AS error,
       waypost_json(e.failure) AS error_details,
       waypost_text(e.current_node) AS current_node_id,
       (SELECT min(coalesce(o.resume_at, o.expires_at)) FROM wait_rows AS o
        WHERE o.execution = e.execution AND o.status = 0) AS resume_at,
       e.resumed_at AS resumed_at,
       waypost_text(e.resumed_by) AS resumed_by,
       e.created_at AS created_at,
       e.updated_at AS updated_at
FROM execution_rows AS e;

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
       n.completed_at AS completed_at,
       n.completed_at - n.started_at AS duration,
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
       coalesce(n.created_at, n.started_at, n.completed_at) AS created_at,
       coalesce(n.updated_at, n.completed_at) AS updated_at
FROM node_rows AS n
JOIN execution_rows AS e ON e.execution = n.execution
LEFT JOIN definition_nodes AS d ON d.definition = e.definition AND d.node = n.node;

CREATE VIEW execution_wait_states AS
SELECT waypost_text(e.key) || '~' || o.seq AS id,
       waypost_text(e.key) AS execution_id,
       waypost_text(o.path) AS node_id,
       waypost_text(e.workflow) AS workflow_id,
       NULL::text AS trigger_id,
       NULL::text AS trigger_node_id,
       o.kind AS wait_type,
       o.resume_at AS resume_at,
       waypost_text(e.key) || '#' || o.seq AS context_snapshot,
       CASE o.status WHEN 0 THEN 'WAITING' WHEN 1 THEN 'COMPLETED' WHEN 2 THEN 'TIMEOUT'
                     ELSE 'FAILED' END AS status,
       least(o.expires_at, n.deadline, e.deadline) AS expires_at,
       o.opened_at AS created_at,
       coalesce(o.closed_at, o.opened_at) AS updated_at
FROM wait_rows AS o
JOIN execution_rows AS e ON e.execution = o.execution
LEFT JOIN node_rows AS n ON n.execution = o.execution AND n.node = o.node;
