-- The projections: rows for readers, derived from the log. This file may be deleted at any time; it
-- is created again when the store is opened, and whenever this text changes.
--
-- Rows are compact: values that many of them share are stored once and joined in the views, which
-- people read.

-- One row: the store it was derived from, the last projected frame and that frame's time.
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    store BLOB NOT NULL,
    cursor INTEGER NOT NULL,
    shown_at INTEGER
) STRICT;

CREATE TABLE statuses (code INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE node_statuses (code INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;

CREATE TABLE workflows (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE paths (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE) STRICT;

CREATE TABLE definitions (
    id INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    workflow INTEGER NOT NULL,
    version INTEGER NOT NULL
) STRICT;

CREATE TABLE definition_nodes (
    definition INTEGER NOT NULL,
    path INTEGER NOT NULL,
    label TEXT,
    family TEXT,
    kind TEXT,
    registry TEXT,
    config TEXT,
    PRIMARY KEY (definition, path)
) STRICT, WITHOUT ROWID;

CREATE TABLE execution_rows (
    execution INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    key TEXT NOT NULL,
    definition INTEGER NOT NULL,
    workflow INTEGER NOT NULL,
    status INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    owner TEXT,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    completed_at INTEGER,
    updated_at INTEGER NOT NULL,
    resumed_at INTEGER,
    resumed_by TEXT,
    deadline INTEGER,
    nodes_executed INTEGER NOT NULL,
    current_node INTEGER,
    progress TEXT,
    waited INTEGER NOT NULL,
    error TEXT,
    failure TEXT,
    labels TEXT,
    input TEXT NOT NULL,
    trigger_name TEXT,
    trigger_node TEXT,
    fired TEXT,
    output TEXT
) STRICT;
CREATE INDEX execution_rows_by_key ON execution_rows (key);
CREATE INDEX execution_rows_by_status ON execution_rows (status, execution);
CREATE INDEX execution_rows_by_workflow ON execution_rows (workflow, execution);
CREATE INDEX execution_rows_by_workflow_status ON execution_rows (workflow, status, execution);

-- The rows of one execution lie side by side, without an index of their own. Their times are
-- milliseconds after the creation of the execution: small numbers take less space. Where created_at is
-- NULL it is started_at. A node ends with its last change: statuses from 4 on are settled.
--
-- With more than 13 columns, SQLite would compare keys by a slower function.
CREATE TABLE node_rows (
    execution INTEGER NOT NULL,
    path INTEGER NOT NULL,
    status INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    created_at INTEGER,
    updated_at INTEGER,
    deadline INTEGER,
    attempt INTEGER,
    started_at INTEGER,
    output TEXT,
    branch TEXT,
    failure TEXT,
    retries TEXT,
    PRIMARY KEY (execution, path)
) STRICT, WITHOUT ROWID;

-- The rendered configs of nodes whose config has expressions.
CREATE TABLE input_rows (
    execution INTEGER NOT NULL,
    path INTEGER NOT NULL,
    input TEXT NOT NULL,
    PRIMARY KEY (execution, path)
) STRICT, WITHOUT ROWID;

-- status: 0 WAITING, 1 COMPLETED, 2 TIMEOUT, 3 FAILED.
CREATE TABLE wait_rows (
    execution INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    path INTEGER NOT NULL,
    kind TEXT NOT NULL,
    status INTEGER NOT NULL CHECK (status IN (0, 1, 2, 3)),
    opened_at INTEGER NOT NULL,
    closed_at INTEGER,
    resume_at INTEGER,
    expires_at INTEGER,
    detail TEXT,
    PRIMARY KEY (execution, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX wait_rows_listed ON wait_rows (execution, seq) WHERE status = 0;
CREATE INDEX wait_rows_by_kind ON wait_rows (kind, execution, seq) WHERE status = 0;
CREATE INDEX wait_rows_open ON wait_rows (execution, path) WHERE status = 0;

CREATE TABLE variable_rows (
    execution INTEGER NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (execution, name)
) STRICT, WITHOUT ROWID;

CREATE VIEW executions AS
SELECT e.key AS id,
       w.name AS workflow_id,
       d.version AS workflow_version,
       w.name || '/' || e.trigger_name AS trigger_id,
       e.trigger_node AS trigger_node_id,
       s.name AS status,
       e.started_at AS started_at,
       e.completed_at AS completed_at,
       e.completed_at - coalesce(e.started_at, e.created_at) AS duration,
       e.nodes_executed AS nodes_executed,
       (SELECT count(*) FROM definition_nodes AS t
        JOIN node_rows AS n ON n.execution = e.execution AND n.path = t.path
        WHERE t.definition = e.definition AND t.kind = 'notify' AND n.status = 4) AS notifications_sent,
       json_object('input', json(e.input),
                   'variables', json((SELECT json_group_object(v.name, json(v.value))
                                      FROM (SELECT name, value FROM variable_rows
                                            WHERE execution = e.execution ORDER BY name) AS v)),
                   'nodes', json((SELECT json_group_object(o.path, json(o.output))
                                  FROM (SELECT p.path, n.output
                                        FROM node_rows AS n CROSS JOIN paths AS p ON p.id = n.path
                                        WHERE n.execution = e.execution AND n.output IS NOT NULL
                                        ORDER BY p.path) AS o)),
                   'output', json(e.output),
                   'path', json((SELECT json_group_array(o.path)
                                 FROM (SELECT p.path
                                       FROM node_rows AS n CROSS JOIN paths AS p ON p.id = n.path
                                       WHERE n.execution = e.execution AND n.started_at IS NOT NULL
                                       ORDER BY n.seq) AS o)),
                   'metadata', json_object('executionId', e.key, 'workflowId', w.name,
                                           'workflowVersion', d.version,
                                           'triggerId', w.name || '/' || e.trigger_name,
                                           'triggerNodeId', e.trigger_node,
                                           'currentNodeId', p.path,
                                           'startedAt', e.started_at)) AS context,
       coalesce(e.fired, e.input) AS trigger_data,
       json_object('name', w.name, 'version', d.version,
                   'definition', lower(hex(d.hash))) AS workflow_metadata,
       json_object('number', e.execution, 'seq', e.seq, 'generation', e.generation,
                   'epoch', e.epoch, 'owner', e.owner, 'deadline', e.deadline,
                   'labels', json(coalesce(e.labels, '{}'))) AS execution_metadata,
       e.error AS error,
       e.failure AS error_details,
       p.path AS current_node_id,
       (SELECT min(coalesce(o.resume_at, o.expires_at)) FROM wait_rows AS o
        WHERE o.execution = e.execution AND o.status = 0) AS resume_at,
       e.resumed_at AS resumed_at,
       e.resumed_by AS resumed_by,
       e.created_at AS created_at,
       e.updated_at AS updated_at
FROM execution_rows AS e
JOIN statuses AS s ON s.code = e.status
JOIN definitions AS d ON d.id = e.definition
JOIN workflows AS w ON w.id = e.workflow
LEFT JOIN paths AS p ON p.id = e.current_node;

CREATE VIEW node_executions AS
SELECT e.key || '/' || p.path AS id,
       e.key AS execution_id,
       p.path AS node_id,
       coalesce(dn.label, p.path) AS node_label,
       dn.family AS node_type,
       dn.kind AS node_sub_type,
       dn.registry AS registry_id,
       s.name AS status,
       e.created_at + n.started_at AS started_at,
       CASE WHEN n.status >= 4 THEN e.created_at + n.updated_at END AS completed_at,
       CASE WHEN n.status >= 4 THEN n.updated_at - n.started_at END AS duration,
       CASE WHEN n.attempt IS NOT NULL THEN coalesce(i.input, dn.config, '{}') END AS input_data,
       n.output AS output_data,
       dn.config AS node_config,
       json_object('workflow', w.name, 'generation', e.generation, 'attempt', n.attempt,
                   'branch', n.branch) AS execution_context,
       n.failure ->> '$.message' AS error,
       n.failure AS error_details,
       max(coalesce(n.attempt, 1) - 1, 0) AS retry_count,
       '[' || n.retries || ']' AS retry_details,
       e.created_at + coalesce(n.created_at, n.started_at) AS created_at,
       e.created_at + n.updated_at AS updated_at
FROM node_rows AS n
JOIN execution_rows AS e ON e.execution = n.execution
JOIN paths AS p ON p.id = n.path
JOIN node_statuses AS s ON s.code = n.status
JOIN workflows AS w ON w.id = e.workflow
LEFT JOIN input_rows AS i ON i.execution = n.execution AND i.path = n.path
LEFT JOIN definition_nodes AS dn ON dn.definition = e.definition AND dn.path = n.path;

CREATE VIEW execution_wait_states AS
SELECT e.key || '~' || o.seq AS id,
       e.key AS execution_id,
       p.path AS node_id,
       w.name AS workflow_id,
       w.name || '/' || e.trigger_name AS trigger_id,
       e.trigger_node AS trigger_node_id,
       o.kind AS wait_type,
       o.resume_at AS resume_at,
       e.key || '#' || o.seq AS context_snapshot,
       CASE o.status WHEN 0 THEN 'WAITING' WHEN 1 THEN 'COMPLETED' WHEN 2 THEN 'TIMEOUT' ELSE 'FAILED' END AS status,
       nullif(min(coalesce(o.expires_at, 9000000000000000), coalesce(e.created_at + n.deadline, 9000000000000000), coalesce(e.deadline, 9000000000000000)),
              9000000000000000) AS expires_at,
       o.opened_at AS created_at,
       coalesce(o.closed_at, o.opened_at) AS updated_at
FROM wait_rows AS o
JOIN execution_rows AS e ON e.execution = o.execution
JOIN paths AS p ON p.id = o.path
JOIN workflows AS w ON w.id = e.workflow
LEFT JOIN node_rows AS n ON n.execution = o.execution AND n.path = o.path;
