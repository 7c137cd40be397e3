-- remove: the store with everything in it. A name cannot be a parameter, hence the block.
DO $$ BEGIN EXECUTE format('DROP SCHEMA %I CASCADE', current_schema()); END $$
