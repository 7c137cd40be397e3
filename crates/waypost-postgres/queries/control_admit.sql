-- append, inspect: executions that hold a permit are ready, unless an instance owns or has quarantined
-- them. Served by the key of control.
UPDATE control SET ready = true, held = NULL, wakes_from = 0
WHERE execution = ANY ($1::int8[]) AND owner IS NULL AND wakes_from < 2
