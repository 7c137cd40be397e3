-- settle_trigger: how many dead letters of a trigger wait for a person, up to the limit. Served by dead_fires_of.
SELECT count(*) FROM (SELECT 1 FROM dead_fires WHERE trigger = $1 AND state = 0 LIMIT 10000) AS d
