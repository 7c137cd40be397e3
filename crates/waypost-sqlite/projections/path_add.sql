-- projector: a path that is new.
INSERT INTO paths (path) VALUES (?1)
