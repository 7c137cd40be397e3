-- heartbeat: sets numbers for executions aside; gives the last one.
UPDATE store SET last_number = last_number + ?1 RETURNING last_number
