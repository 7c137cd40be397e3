-- open_executions: executions that have ended. Served by trigger_fires_open.
UPDATE trigger_fires SET open = false WHERE trigger = $1 AND open AND place = ANY ($2::int8[])
