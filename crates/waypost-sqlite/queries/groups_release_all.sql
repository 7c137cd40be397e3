-- open of an engine: the claims of an engine that is gone end; a closed group is due. Reads the table of groups.
UPDATE trigger_groups SET claimable_at = last_at WHERE closed
