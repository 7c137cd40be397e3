-- The current version of each workflow: what starts use that name no version. Every deploy moves it,
-- also of content that is a version already. Of what was there before, the newest version was used.
CREATE TABLE current_versions (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO current_versions (name, version)
SELECT name, max(version) FROM definitions GROUP BY name;
