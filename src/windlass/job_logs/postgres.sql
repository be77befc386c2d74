-- fragment: pruned
-- The log of a pruned job goes with it.
, pruned_logs AS (
    DELETE FROM windlass.job_log AS l
    USING gone AS g
    WHERE l.job = g.id
)
