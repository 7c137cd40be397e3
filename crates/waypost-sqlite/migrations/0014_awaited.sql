-- Messages that nodes wait for: a row until all deliveries are settled and the execution has mail that says so.
CREATE TABLE outbox_awaited (
    execution INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    mark INTEGER NOT NULL,
    PRIMARY KEY (execution, seq)
) STRICT, WITHOUT ROWID;
