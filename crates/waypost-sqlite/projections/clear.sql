-- rebuild: forgets everything but the names of statuses.
DELETE FROM wait_rows;
DELETE FROM variable_rows;
DELETE FROM input_rows;
DELETE FROM node_rows;
DELETE FROM execution_rows;
DELETE FROM definition_nodes;
DELETE FROM definitions;
DELETE FROM workflows;
DELETE FROM paths;
UPDATE meta SET cursor = 0, shown_at = NULL;
