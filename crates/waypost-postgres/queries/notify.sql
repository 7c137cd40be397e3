-- nudges: tells all who listen.
SELECT pg_notify($1, $2)
