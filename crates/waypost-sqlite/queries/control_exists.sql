-- is_unfinished: is there a control row? Served by the key of control.
SELECT EXISTS (SELECT 1 FROM control WHERE execution = ?1)
