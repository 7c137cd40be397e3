-- projector: the store that the projections are derived from.
SELECT id FROM store
