-- Instead of one mark per process: one place before which all rows are projected. One process at a time,
-- the holder of the lease, compares the log after it with the rows, and moves it on.
CREATE TABLE sweeper (
    one integer PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    place bigint NOT NULL,
    holder uuid,
    held_until bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10);
-- At most one beyond the last frame: a copy of this database that counts transactions anew continues from
-- that frame.
INSERT INTO sweeper (place)
SELECT least((SELECT min(done) FROM projectors), coalesce((SELECT max(place) FROM frames), -1) + 1);
DROP TABLE projectors;
