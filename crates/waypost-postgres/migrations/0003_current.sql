-- The current version of each workflow: what starts use that name no version. Every deploy moves it,
-- also of content that is a version already. Of what was there before, the newest version was used.
--
-- Its row is also the lock under which deploys of one workflow take turns. Where there is none, an
-- instance of an older version added the workflow, and its newest version is current.
CREATE TABLE current_versions (
    name bytea PRIMARY KEY,
    version bigint NOT NULL
);

INSERT INTO current_versions (name, version)
SELECT name, max(version) FROM definitions GROUP BY name;
