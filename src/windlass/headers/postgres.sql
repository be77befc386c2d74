-- fragment: pruned
-- The headers of a pruned job go with it.
, pruned_headers AS (
    DELETE FROM windlass.job_headers AS h
    USING gone AS g
    WHERE h.job = g.id
)
