-- Which executions name a blob: in a frame, or in mail. The rows stay as long as the execution's log.
CREATE TABLE blob_refs (
    digest BLOB NOT NULL,
    execution INTEGER NOT NULL,
    PRIMARY KEY (digest, execution)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_refs_by_execution ON blob_refs (execution);

-- One row: which instance sweeps blobs, and until when.
CREATE TABLE blob_sweep (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    holder BLOB,
    held_until INTEGER NOT NULL
) STRICT;
INSERT INTO blob_sweep (one, held_until) VALUES (1, 0);
