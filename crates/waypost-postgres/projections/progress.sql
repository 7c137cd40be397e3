-- lag: how many frames the rows do not show, and the time of the last frame before them. After the place
-- that the sweeper has reached, the first $1 frames are compared with the rows; those that follow count as
-- not shown (counted up to $2). Served by frames_by_place and the keys of sweeper and execution_rows.
WITH next AS MATERIALIZED (
    SELECT place, execution, last_seq FROM frames
    WHERE place >= (SELECT sweeper.place FROM sweeper) ORDER BY place LIMIT $1
), behind AS MATERIALIZED (
    SELECT place FROM next
    WHERE coalesce((SELECT projected FROM execution_rows AS e WHERE e.execution = next.execution), 0)
          < next.last_seq
    UNION ALL
    (SELECT place FROM frames WHERE place > (SELECT max(next.place) FROM next) ORDER BY place LIMIT $2)
)
SELECT (SELECT count(*) FROM behind),
       (SELECT at FROM frames
        WHERE place < coalesce((SELECT min(behind.place) FROM behind), 9223372036854775807)
        ORDER BY place DESC LIMIT 1)
