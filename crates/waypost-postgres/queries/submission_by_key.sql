-- find: the execution of a key. Served by submissions_by_key.
SELECT execution FROM submissions WHERE sha256(key) = sha256($1) AND key = $1
