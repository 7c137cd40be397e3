-- release_trigger: it may be claimed when it is due. Served by the key of triggers.
UPDATE triggers SET claimable_at = next_due WHERE number = $1 AND seq = $2
