-- Places that were reserved in trees of executions, by the id of the root. Only large trees have a row.
CREATE TABLE trees (
    root bytea PRIMARY KEY,
    reserved bigint NOT NULL CHECK (reserved >= 0)
) WITH (fillfactor = 50);
