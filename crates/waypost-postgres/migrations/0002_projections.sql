-- The projections: rows for readers, derived from the log and from nothing else. They can be thrown away
-- and made again (`rebuild`) at any time.
--
-- People read the views; the tables below them hold text and JSON as bytes, like the log (see there),
-- and statuses by their number in the core.

-- Who owes rows: one row for each process that appends. Every frame that it committed at a place before
-- `done` is shown. What it leaves behind when it dies is all after that, and is shown by whoever finds
-- that its lease ended.
CREATE TABLE projectors (
    id uuid PRIMARY KEY,
    done bigint NOT NULL,
    alive_until bigint NOT NULL
) WITH (fillfactor = 10);

-- `projected` is the last seq of the last frame that the rows of this execution show, or left out because
-- it could not be read. It is also the fence of these rows: whoever writes them says from which value it
-- goes on, and is refused where somebody else was faster.
CREATE TABLE execution_rows (
    execution bigint PRIMARY KEY,
    projected bigint NOT NULL,
    seq bigint NOT NULL,
    workflow_hash bigint NOT NULL,
    nodes_executed bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    started_at bigint,
    completed_at bigint,
    resumed_at bigint,
    deadline bigint,
    version bigint NOT NULL,
    generation bigint NOT NULL,
    epoch bigint NOT NULL,
    status smallint NOT NULL CHECK (status BETWEEN 0 AND 10),
    waited boolean NOT NULL,
    definition bytea NOT NULL,
    key bytea NOT NULL,
    workflow bytea NOT NULL,
    current_node bytea,
    resumed_by bytea,
    error bytea,
    failure bytea,
    labels bytea,
    input bytea NOT NULL,
    output bytea
) WITH (fillfactor = 80);
CREATE INDEX execution_rows_by_status ON execution_rows (status, execution);
-- By a hash of the name, since a name may be longer than a row of an index.
CREATE INDEX execution_rows_by_workflow ON execution_rows (workflow_hash, status, execution);

-- What can be searched for by JSON fields. Apart from execution_rows, so that an index of this kind is
-- written when an execution begins and ends, and not whenever its status changes.
CREATE TABLE execution_documents (
    execution bigint PRIMARY KEY,
    document jsonb NOT NULL
);
CREATE INDEX execution_documents_by_field ON execution_documents USING gin (document jsonb_path_ops);

-- `node` is a hash of the path, which may be longer than a row of an index. Starts come in the order of
-- time, so that a summary of each range of pages is index enough.
CREATE TABLE node_rows (
    execution bigint NOT NULL,
    node bigint NOT NULL,
    attempt bigint,
    started_at bigint,
    completed_at bigint,
    status smallint NOT NULL CHECK (status BETWEEN 0 AND 8),
    path bytea NOT NULL,
    branch bytea,
    output bytea,
    failure bytea,
    retries bytea,
    PRIMARY KEY (execution, node)
) WITH (fillfactor = 90);
CREATE INDEX node_rows_by_start ON node_rows USING brin (started_at);
CREATE INDEX node_rows_failed ON node_rows (execution) WHERE status IN (5, 6);

-- status: 0 WAITING, 1 COMPLETED, 2 TIMEOUT, 3 FAILED.
CREATE TABLE wait_rows (
    execution bigint NOT NULL,
    seq bigint NOT NULL,
    node bigint NOT NULL,
    opened_at bigint NOT NULL,
    closed_at bigint,
    resume_at bigint,
    expires_at bigint,
    status smallint NOT NULL CHECK (status IN (0, 1, 2, 3)),
    kind text NOT NULL,
    path bytea NOT NULL,
    PRIMARY KEY (execution, seq)
);
CREATE INDEX wait_rows_open ON wait_rows (execution, node) WHERE status = 0;

-- What the views show of the nodes of a definition, once for all executions of it.
CREATE TABLE definition_nodes (
    definition bytea NOT NULL,
    node bigint NOT NULL,
    label bytea,
    family text,
    kind bytea,
    registry bytea,
    config bytea,
    PRIMARY KEY (definition, node)
);

-- Text as people read it; one with U+0000 in it, which PostgreSQL's text cannot hold, is escaped.
CREATE FUNCTION waypost_text(stored bytea) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN position('\x00'::bytea IN stored) > 0 THEN encode(stored, 'escape')
                ELSE convert_from(stored, 'UTF8') END
$$;
CREATE FUNCTION waypost_json(stored bytea) RETURNS json LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT convert_from(stored, 'UTF8')::json
$$;
CREATE FUNCTION waypost_status(code smallint) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (ARRAY['REQUESTED', 'SCHEDULING', 'SCHEDULED', 'RUNNING', 'PAUSED', 'RESUMING', 'ENDING',
                  'COMPLETED', 'FAILED', 'CANCELLED', 'TIMED_OUT'])[code + 1]
$$;
CREATE FUNCTION waypost_node_status(code smallint) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (ARRAY['PENDING', 'QUEUED', 'RUNNING', 'WAITING', 'COMPLETED', 'FAILED', 'TIMED_OUT',
                  'SKIPPED', 'CANCELLED'])[code + 1]
$$;

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
           'nodes', (SELECT coalesce(json_object_agg(waypost_text(n.path), waypost_json(n.output)
                                                     ORDER BY n.path), '{}')
                     FROM node_rows AS n WHERE n.execution = e.execution AND n.output IS NOT NULL),
           'output', waypost_json(e.output)) AS context,
       waypost_json(e.input) AS trigger_data,
       json_build_object('name', waypost_text(e.workflow), 'version', e.version,
                         'definition', encode(e.definition, 'hex')) AS workflow_metadata,
       json_build_object('number', e.execution, 'seq', e.seq, 'generation', e.generation,
                         'epoch', e.epoch, 'deadline', e.deadline,
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
       NULL::json AS input_data,
       waypost_json(n.output) AS output_data,
       waypost_json(d.config) AS node_config,
       json_build_object('workflow', waypost_text(e.workflow), 'generation', e.generation,
                         'attempt', n.attempt, 'branch', waypost_text(n.branch)) AS execution_context,
       waypost_json(n.failure) ->> 'message' AS error,
       waypost_json(n.failure) AS error_details,
       greatest(coalesce(n.attempt, 1) - 1, 0) AS retry_count,
       waypost_json('['::bytea || n.retries || ']'::bytea) AS retry_details
FROM node_rows AS n
JOIN execution_rows AS e ON e.execution = n.execution
LEFT JOIN definition_nodes AS d ON d.definition = e.definition AND d.node = n.node;

CREATE VIEW execution_wait_states AS
SELECT waypost_text(e.key || '/' || o.path) || '#' || o.seq AS id,
       waypost_text(e.key) AS execution_id,
       waypost_text(o.path) AS node_id,
       waypost_text(e.workflow) AS workflow_id,
       NULL::text AS trigger_id,
       NULL::text AS trigger_node_id,
       o.kind AS wait_type,
       o.resume_at AS resume_at,
       waypost_text(e.key) || '#' || o.seq AS context_snapshot,
       CASE o.status WHEN 0 THEN CASE e.status WHEN 5 THEN 'RESUMING' ELSE 'WAITING' END
                     WHEN 1 THEN 'COMPLETED' WHEN 2 THEN 'TIMEOUT' ELSE 'FAILED' END AS status,
       o.expires_at AS expires_at
FROM wait_rows AS o
JOIN execution_rows AS e ON e.execution = o.execution;
