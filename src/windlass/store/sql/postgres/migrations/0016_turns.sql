-- Work that one instance does for all of them, such as pruning: who does it now, and until when no other instance begins.
CREATE TABLE windlass.turn (
    name text NOT NULL,
    holder text NOT NULL,
    until timestamptz NOT NULL,
    CONSTRAINT turn_pkey PRIMARY KEY (name)
);
