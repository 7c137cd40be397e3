-- The names that users know: concurrency permits, the audit log, and the statuses WAITING (parked on a
-- timer, a signal or a retry) and QUARANTINED, which were both PAUSED before.
ALTER TABLE slot_keys RENAME TO permit_keys;
ALTER INDEX slot_keys_by_key RENAME TO permit_keys_by_key;
ALTER TABLE slots RENAME TO permits;
ALTER INDEX slots_by_key RENAME TO permits_by_key;
ALTER INDEX slots_holding RENAME TO permits_holding;
ALTER INDEX slots_waiting RENAME TO permits_waiting;
ALTER TABLE trail RENAME TO audit;
ALTER INDEX trail_by_actor RENAME TO audit_by_actor;

CREATE OR REPLACE FUNCTION waypost_status(code smallint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (ARRAY['REQUESTED', 'SCHEDULING', 'SCHEDULED', 'RUNNING', 'PAUSED', 'RESUMING', 'ENDING',
                  'COMPLETED', 'FAILED', 'CANCELLED', 'TIMED_OUT', 'WAITING', 'QUARANTINED'])[code + 1]
$$;
ALTER TABLE execution_rows DROP CONSTRAINT execution_rows_status_check;
ALTER TABLE execution_rows ADD CONSTRAINT execution_rows_status_check
    CHECK (status IN (1, 3, 4, 6, 7, 8, 9, 10, 11, 12)) NOT VALID;
UPDATE execution_rows SET status = 3 WHERE status IN (0, 2, 5);
UPDATE execution_rows AS e
SET status = CASE WHEN c.held IS NULL THEN 11
                  WHEN c.held = convert_to('paused by a user', 'UTF8') THEN 4
                  ELSE 12 END
FROM control AS c
WHERE c.execution = e.execution AND e.status = 4;
ALTER TABLE execution_rows VALIDATE CONSTRAINT execution_rows_status_check;
