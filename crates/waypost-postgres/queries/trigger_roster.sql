-- roster_revision. One row.
SELECT revision FROM trigger_roster
