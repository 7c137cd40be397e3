-- Which executions name a blob: in a frame, or in mail. The rows stay as long as the execution's log.
CREATE TABLE blob_refs (
    digest bytea NOT NULL,
    execution bigint NOT NULL,
    PRIMARY KEY (digest, execution)
);
CREATE INDEX blob_refs_by_execution ON blob_refs (execution);

-- One row: which instance sweeps blobs, and until when.
CREATE TABLE blob_sweep (
    one integer PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    holder uuid,
    held_until bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10);
INSERT INTO blob_sweep DEFAULT VALUES;

-- Blobs, where they are in this database. `parts` describes the parts and has their digests.
CREATE TABLE blobs (
    digest bytea PRIMARY KEY,
    upload uuid NOT NULL,
    bytes bigint NOT NULL,
    stored_bytes bigint NOT NULL,
    parts bytea NOT NULL,
    touched_at bigint NOT NULL
);
-- Compressed by their writer.
CREATE TABLE blob_parts (
    upload uuid NOT NULL,
    n integer NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (upload, n)
);
ALTER TABLE blob_parts ALTER COLUMN body SET STORAGE EXTERNAL;
-- Uploads that are not complete, and when each was last active: 0 while its parts are being deleted.
CREATE TABLE blob_uploads (
    upload uuid PRIMARY KEY,
    at bigint NOT NULL
);
