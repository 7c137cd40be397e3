-- nudges: notifies all listeners.
SELECT pg_notify($1, $2)
