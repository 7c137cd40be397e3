-- Lists of open waits: what people are shown of each, as JSON, and the order of the list.
ALTER TABLE wait_rows ADD COLUMN detail bytea;
CREATE INDEX wait_rows_listed ON wait_rows (execution, seq) WHERE status = 0;
CREATE INDEX wait_rows_by_kind ON wait_rows (kind, execution, seq) WHERE status = 0;
