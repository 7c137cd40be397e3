-- heartbeat: reserves numbers for executions; returns the last one.
UPDATE store SET last_number = last_number + ?1 RETURNING last_number
