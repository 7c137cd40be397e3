-- instances: those that are alive or own executions, with how many. Scans instances and the index
-- control_by_owner.
SELECT coalesce(i.id, o.owner), i.alive_until, coalesce(i.alive_until > clock.now, false), i.fold,
       coalesce(o.executions, 0), i.version, i.address, i.running,
       clock.now - i.renewed_at
FROM (SELECT waypost_now() AS now) AS clock
CROSS JOIN (
    instances AS i
    FULL JOIN (SELECT owner, count(*) AS executions FROM control WHERE owner IS NOT NULL GROUP BY owner)
        AS o ON o.owner = i.id
)
WHERE i.alive_until > clock.now OR o.executions > 0
ORDER BY 1
