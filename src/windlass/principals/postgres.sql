-- fragment: pruned
-- The principal of a pruned job goes with it.
, pruned_principals AS (
    DELETE FROM windlass.principal AS p
    USING gone AS g
    WHERE p.job = g.id
)
