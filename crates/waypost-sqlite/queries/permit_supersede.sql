-- append: a newcomer supersedes an execution. Served by the unique key of permits.
UPDATE permits SET superseded = 1 WHERE execution = ?1
