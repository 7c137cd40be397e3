-- How many notify nodes of an execution have completed: each gave a message to the outbox.
CREATE OR REPLACE VIEW executions AS
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
