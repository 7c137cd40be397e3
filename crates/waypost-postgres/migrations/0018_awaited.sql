-- Messages that nodes wait for: a row until all deliveries are settled and the execution has mail that says so.
CREATE TABLE outbox_awaited (
    execution bigint NOT NULL,
    seq bigint NOT NULL,
    mark bigint NOT NULL,
    PRIMARY KEY (execution, seq)
);
