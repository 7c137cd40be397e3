-- append: does the row of an execution hold a permit? Served by the unique key of permits.
SELECT holding FROM permits WHERE execution = ?1
