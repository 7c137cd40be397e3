-- projector: a definition that is new.
INSERT INTO definitions (hash, workflow, version) VALUES (?1, ?2, ?3)
