-- projector: the definition of a number. Served by the key of definitions.
SELECT hash FROM definitions WHERE id = ?1
