-- file: the names of the statuses of executions.
INSERT INTO statuses (code, name) VALUES (?1, ?2)
