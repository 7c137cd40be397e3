-- migrate: is the schema there? Its name is the first of the search path.
SELECT current_schema() IS NOT NULL
