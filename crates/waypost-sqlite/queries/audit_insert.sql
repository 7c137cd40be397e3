-- access: somebody did something.
INSERT INTO audit (at, actor, address, action, subject, status) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
