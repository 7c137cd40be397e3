-- How far the map of an execution is that was opened last, as JSON: rows of ended executions have none.
ALTER TABLE execution_rows ADD COLUMN progress bytea;
