-- open of an engine: the claims of an engine that is gone end. Reads the small table of triggers.
UPDATE triggers SET claimable_at = next_due WHERE claimable_at > next_due
