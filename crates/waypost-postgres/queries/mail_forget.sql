-- repair: the mail of an execution that has ended. Served by inbox_by_execution.
DELETE FROM inbox WHERE execution = $1
