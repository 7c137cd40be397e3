-- projector: the nodes of a definition that is new here. Served by the key of definition_nodes.
INSERT INTO definition_nodes (definition, node, label, family, kind, registry, config)
SELECT $1, c.* FROM unnest($2::bigint[], $3::bytea[], $4::text[], $5::bytea[], $6::bytea[], $7::bytea[])
    AS c
ON CONFLICT (definition, node) DO NOTHING
