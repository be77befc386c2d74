-- Where an attempt ran and for how long: the instance that had claimed it, the number of the processor in its phase's pool,
-- how long it waited there and how long it ran. All may be unknown: rows of before have none of them, and a holder that says
-- nothing leaves them out. Adding them rewrites no row.

ALTER TABLE windlass.job_done
    ADD COLUMN instance uuid,
    ADD COLUMN processor smallint,
    ADD COLUMN waited_ms integer,
    ADD COLUMN ran_ms integer;

ALTER TABLE windlass.attempt
    ADD COLUMN instance uuid,
    ADD COLUMN processor smallint,
    ADD COLUMN waited_ms integer,
    ADD COLUMN ran_ms integer;
