-- migrate: where all tables are. {schema} is replaced by a checked name.
CREATE SCHEMA IF NOT EXISTS "{schema}"
