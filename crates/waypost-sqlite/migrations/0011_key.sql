-- One row: the key of the links that this store's executions give out. It must outlast the process.
CREATE TABLE cluster (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    key BLOB NOT NULL CHECK (length(key) = 32)
) STRICT;
INSERT INTO cluster (one, key) VALUES (1, randomblob(32));
