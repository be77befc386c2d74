-- Work that one instance does for all of them; the PostgreSQL file of the same name gives the reasons.
CREATE TABLE windlass_turn (
    name TEXT NOT NULL PRIMARY KEY,
    holder TEXT NOT NULL,
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
