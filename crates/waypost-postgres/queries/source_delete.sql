-- tables: deletes rows that have fired. Served by an index of the owner of the table on the key.
DELETE FROM {table} AS t WHERE t.{key} = ANY ($1::text[]::{type}[])
