-- What started an execution, as expressions see `trigger`: rows of executions without a trigger have none.
ALTER TABLE execution_rows
    ADD COLUMN trigger_name bytea,
    ADD COLUMN trigger_node bytea,
    ADD COLUMN fired bytea;

CREATE OR REPLACE VIEW executions AS
SELECT waypost_text(e.key) AS id,
       waypost_text(e.workflow) AS workflow_id,
       e.version AS workflow_version,
       waypost_text(e.workflow) || '/' || waypost_text(e.trigger_name) AS trigger_id,
       waypost_text(e.trigger_node) AS trigger_node_id,
       waypost_status(e.status) AS status,
       e.started_at AS started_at,
       e.completed_at AS completed_at,
       e.completed_at - coalesce(e.started_at, e.created_at) AS duration,
       e.nodes_executed AS nodes_executed,
       (SELECT count(*)::integer FROM definition_nodes AS t
        JOIN node_rows AS n ON n.execution = e.execution AND n.node = t.node
        WHERE t.definition = e.definition AND t.kind = 'notify'::bytea AND n.status = 4)
           AS notifications_sent,
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
               'workflowVersion', e.version,
               'triggerId', waypost_text(e.workflow) || '/' || waypost_text(e.trigger_name),
               'triggerNodeId', waypost_text(e.trigger_node),
               'currentNodeId', waypost_text(e.current_node), 'startedAt', e.started_at)) AS context,
       waypost_json(coalesce(e.fired, e.input)) AS trigger_data,
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

CREATE OR REPLACE VIEW execution_wait_states AS
SELECT waypost_text(e.key) || '~' || o.seq AS id,
       waypost_text(e.key) AS execution_id,
       waypost_text(o.path) AS node_id,
       waypost_text(e.workflow) AS workflow_id,
       waypost_text(e.workflow) || '/' || waypost_text(e.trigger_name) AS trigger_id,
       waypost_text(e.trigger_node) AS trigger_node_id,
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
