-- Old days of history become months (store/postgres/months.py), so that a look-up by id has some dozens of tables to plan and lock, and not one for
-- each day there ever was.

-- The month that is being made: which days it has and how far they are copied. One row at most. `shape` is what job_done looked like when it began;
-- `waits_for` the transactions that were open when all was copied, none of which may see the month without its rows.
CREATE TABLE windlass.month (
    name text NOT NULL,
    days text[] NOT NULL,
    shape text NOT NULL,
    day integer NOT NULL DEFAULT 1,
    after uuid,
    copied bigint NOT NULL DEFAULT 0,
    waits_for text[],
    CONSTRAINT month_pkey PRIMARY KEY (name)
);

-- What was changed in those days meanwhile: a retry takes a job out, a prune removes some. No id: all of the day.
CREATE TABLE windlass.month_change (
    day text NOT NULL,
    id uuid
);

CREATE FUNCTION windlass.note_month_change() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        INSERT INTO windlass.month_change (day) VALUES (TG_TABLE_NAME);
    ELSIF TG_OP = 'INSERT' THEN
        INSERT INTO windlass.month_change (day, id) VALUES (TG_TABLE_NAME, NEW.id);
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO windlass.month_change (day, id) VALUES (TG_TABLE_NAME, OLD.id), (TG_TABLE_NAME, NEW.id);
    ELSE
        INSERT INTO windlass.month_change (day, id) VALUES (TG_TABLE_NAME, OLD.id);
    END IF;
    RETURN NULL;
END $$;
