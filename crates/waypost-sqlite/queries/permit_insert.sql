-- append, inspect: an execution joins the end of a queue.
INSERT INTO permits (execution, key, most, policy, holding, superseded) VALUES (?1, ?2, ?3, ?4, ?5, 0)
