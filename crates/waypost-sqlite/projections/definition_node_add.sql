-- projector: a node of a definition that is new. Served by the key of definition_nodes.
INSERT INTO definition_nodes (definition, path, label, family, kind, registry, config)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (definition, path) DO NOTHING
