-- append, inspect: an execution goes to the end of the queue.
INSERT INTO permits (execution, key, most, policy, holding, superseded) VALUES (?1, ?2, ?3, ?4, ?5, 0)
