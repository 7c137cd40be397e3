-- access: an entry of the audit log.
INSERT INTO audit (at, actor, address, action, subject, status) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
