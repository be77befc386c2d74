-- fragment: now
-- The time: that of the database's clock, unless a test sets it.
COALESCE(:now::timestamptz, clock_timestamp())

-- The slots of the core: texts that features add to verbs of the core. A feature defines a fragment of the same name in its own file; the
-- texts of all features are put there one after the other. Columns (agenda, history) are slots, too: see statements.py.

-- fragment: new_flags(kind)
-- Flags that a job of this kind gets when it is stored or comes into its queue: "| expression".

-- fragment: revived_flags(job)
-- Further flags of a job that is retried by hand: "| expression".

-- fragment: retried
-- Further CTEs of retry.take, which moves the rows of `taken` back into the queue.

-- fragment: revived
-- The same for children that come back with their parent (rows of `taken`).

-- fragment: cancel_details(job)
-- A JSON object with further details for the error of a cancelled job, or NULL, and a comma.

-- fragment: tidied
-- Further CTEs that remove rows of jobs that ended (:ids).

-- fragment: kept(job)
-- Conditions under which an ended job may be pruned: "AND condition".

-- fragment: pruned
-- Further CTEs that remove the rows of pruned jobs (`gone`).

-- fragment: needed(table)
-- Conditions under which a whole table of history must not be dropped, the same as those of `kept`: "OR condition".

