-- projector: the content of a definition. Served by the key of definitions.
SELECT canonical FROM definitions WHERE hash = $1
