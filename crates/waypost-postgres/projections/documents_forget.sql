-- projector: the same for documents. Served by the key of execution_documents.
DELETE FROM execution_documents WHERE execution = ANY($1)
