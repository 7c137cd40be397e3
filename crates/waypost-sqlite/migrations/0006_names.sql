-- The names that users know: concurrency permits and the audit log.
ALTER TABLE slots RENAME TO permits;
DROP INDEX slots_by_key;
DROP INDEX slots_holding;
DROP INDEX slots_waiting;
CREATE INDEX permits_by_key ON permits (key);
CREATE INDEX permits_holding ON permits (key) WHERE holding = 1;
CREATE INDEX permits_waiting ON permits (key) WHERE holding = 0;

ALTER TABLE trail RENAME TO audit;
DROP INDEX trail_by_actor;
CREATE INDEX audit_by_actor ON audit (actor, id);
