-- projector: which store the projections were made from.
SELECT id FROM store
