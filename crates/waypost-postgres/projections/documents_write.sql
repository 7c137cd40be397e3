-- projector: searchable documents; a later part adds to an earlier one. Served by the key of
-- execution_documents.
INSERT INTO execution_documents AS d (execution, document)
SELECT c.execution, convert_from(c.document, 'UTF8')::jsonb
FROM unnest($1::bigint[], $2::bytea[]) AS c (execution, document)
ON CONFLICT (execution) DO UPDATE SET document = d.document || excluded.document
