-- append, audit: an execution goes to the end of the line.
INSERT INTO slots (execution, key, most, policy, holding, superseded) VALUES (?1, ?2, ?3, ?4, ?5, 0)
