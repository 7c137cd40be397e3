-- repair: locks this row until the transaction ends. Served by the key of control.
SELECT FROM control WHERE execution = $1 FOR UPDATE
