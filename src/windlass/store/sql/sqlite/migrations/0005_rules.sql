-- Rules, the kinds that have some, and what they have seen; the PostgreSQL file of the same name gives the reasons. Lists are JSON
-- arrays here. fan_in.id is AUTOINCREMENT: a number that was pruned must not come back, since hits name it.
CREATE TABLE windlass_rule (
    name TEXT NOT NULL PRIMARY KEY,
    defined_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    gone_at INTEGER,
    lane INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    inherit INTEGER NOT NULL,
    policy TEXT NOT NULL,
    kind TEXT NOT NULL,
    phase TEXT NOT NULL,
    source TEXT NOT NULL,
    parents TEXT NOT NULL,
    key TEXT NOT NULL,
    args TEXT NOT NULL,
    CONSTRAINT rule_lane CHECK (lane BETWEEN 0 AND 9),
    CONSTRAINT rule_max_attempts CHECK (max_attempts >= 1),
    CONSTRAINT rule_policy CHECK (policy IN ('cancel', 'wait', 'run')),
    CONSTRAINT rule_key CHECK ((json_array_length(parents) > 1) = (json_array_length(key) > 0))
) STRICT;

CREATE TABLE windlass_rule_kind (
    kind TEXT NOT NULL PRIMARY KEY,
    since INTEGER NOT NULL,
    looks INTEGER NOT NULL DEFAULT 0,
    CONSTRAINT rule_kind_looks CHECK (looks BETWEEN 0 AND 2)
) STRICT;

CREATE TABLE windlass_fan_in (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    opened_at INTEGER,
    round INTEGER NOT NULL DEFAULT 1,
    missing INTEGER NOT NULL,
    bad INTEGER NOT NULL DEFAULT 0,
    rule TEXT NOT NULL,
    key TEXT NOT NULL,
    UNIQUE (rule, key),
    CONSTRAINT fan_in_round CHECK (round >= 1),
    CONSTRAINT fan_in_missing CHECK (missing > 0 AND bad BETWEEN 0 AND missing)
) STRICT;
CREATE INDEX windlass_fan_in_open ON windlass_fan_in (rule, id) WHERE opened_at IS NOT NULL;

CREATE TABLE windlass_rule_hit (
    parent TEXT NOT NULL,
    child TEXT,
    at INTEGER NOT NULL,
    fan_in INTEGER,
    round INTEGER,
    generation INTEGER NOT NULL,
    counts INTEGER NOT NULL,
    asked INTEGER NOT NULL,
    rule TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    error TEXT,
    data TEXT,
    PRIMARY KEY (parent, rule, generation),
    CONSTRAINT rule_hit_state CHECK (state IN ('completed', 'failed', 'cancelled')),
    CONSTRAINT rule_hit_round CHECK ((fan_in IS NULL) = (round IS NULL)),
    CONSTRAINT rule_hit_error CHECK (error IS NULL OR child IS NULL)
) STRICT;
CREATE UNIQUE INDEX windlass_rule_hit_counting ON windlass_rule_hit (fan_in, round, kind) WHERE counts;
CREATE INDEX windlass_rule_hit_of_child ON windlass_rule_hit (child) WHERE child IS NOT NULL;
CREATE INDEX windlass_rule_hit_left ON windlass_rule_hit (rule, parent) WHERE child IS NULL AND (fan_in IS NULL OR error IS NOT NULL);
