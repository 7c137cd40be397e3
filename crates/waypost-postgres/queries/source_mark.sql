-- tables: sets the mark of rows that have fired. Served by an index of the owner of the table on the key.
UPDATE {table} AS t SET {done} = {value} WHERE t.{key} = ANY ($1::text[]::{type}[]) AND {unmarked}
