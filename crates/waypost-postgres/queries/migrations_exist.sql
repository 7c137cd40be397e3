-- migrate: is there a table of migrations?
SELECT to_regclass('migrations') IS NOT NULL
