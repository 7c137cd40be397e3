-- deliver, owners: the current owners of these executions. Served by the key of control.
SELECT execution, owner FROM control WHERE execution = ANY ($1::int8[])
