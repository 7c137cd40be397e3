-- repair: the control row of an execution that has ended. Served by the key of control.
DELETE FROM control WHERE execution = $1
