-- deliver: who owns these executions now. Served by the key of control.
SELECT execution, owner FROM control WHERE execution = ANY ($1::int8[])
