-- Places that were reserved in trees of executions, by the id of the root. Only large trees have a row.
CREATE TABLE trees (
    root TEXT PRIMARY KEY,
    reserved INTEGER NOT NULL CHECK (reserved >= 0)
) STRICT, WITHOUT ROWID;
