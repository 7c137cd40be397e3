-- projector: the number of a definition and of its workflow. Served by the unique key of definitions.
SELECT id, workflow FROM definitions WHERE hash = ?1
