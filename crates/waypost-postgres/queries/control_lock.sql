-- repair: nobody else changes this row before the transaction ends. Served by the key of control.
SELECT FROM control WHERE execution = $1 FOR UPDATE
