-- define, change_trigger, settle_trigger: the list of triggers has changed. One row.
UPDATE trigger_roster SET revision = revision + 1
