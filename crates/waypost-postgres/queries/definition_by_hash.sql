-- define, definition, projector: by content. Served by the key.
SELECT name, version, hash, canonical FROM definitions WHERE hash = $1
