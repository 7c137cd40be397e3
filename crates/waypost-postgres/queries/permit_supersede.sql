-- append, under the locks of their keys: newcomers supersede executions. Served by the key of permits.
UPDATE permits SET superseded = true WHERE execution = ANY ($1::int8[])
