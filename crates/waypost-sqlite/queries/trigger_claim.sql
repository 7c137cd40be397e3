-- claim_triggers: others leave it alone until then. Served by the key of triggers.
UPDATE triggers SET claimable_at = ?2 WHERE number = ?1
