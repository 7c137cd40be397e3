-- projector: a workflow that is new.
INSERT INTO workflows (name) VALUES (?1)
