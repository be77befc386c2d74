-- Rules: when jobs of these kinds end well, a job of that kind is made. Keys and arguments are paths into the parents, so that an
-- instance that lacks the code that defined a rule fires it all the same.
CREATE TABLE windlass.rule (
    name text NOT NULL,
    defined_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    gone_at timestamptz,
    lane smallint NOT NULL,
    max_attempts smallint NOT NULL,
    inherit boolean NOT NULL,
    policy text NOT NULL,
    kind text NOT NULL,
    phase text NOT NULL,
    source text NOT NULL,
    parents text[] NOT NULL,
    key text[] NOT NULL,
    args jsonb NOT NULL,
    CONSTRAINT rule_pkey PRIMARY KEY (name),
    CONSTRAINT rule_lane CHECK (lane BETWEEN 0 AND 9),
    CONSTRAINT rule_max_attempts CHECK (max_attempts >= 1),
    CONSTRAINT rule_policy CHECK (policy IN ('cancel', 'wait', 'run')),
    CONSTRAINT rule_key CHECK ((cardinality(parents) > 1) = (cardinality(key) > 0))
);

-- The kinds that are some rule's parents. Read by every enqueue, which flags their jobs, so that the end of any other job never
-- asks for rules. `looks` is how often the jobs were looked through that were there before their kind was (see rules.py).
CREATE TABLE windlass.rule_kind (
    kind text NOT NULL,
    since timestamptz NOT NULL,
    looks smallint NOT NULL DEFAULT 0,
    CONSTRAINT rule_kind_pkey PRIMARY KEY (kind),
    CONSTRAINT rule_kind_looks CHECK (looks BETWEEN 0 AND 2)
);

-- One row for every key of a rule with several parents, where its parents meet: whoever ends locks it and counts `missing` down,
-- and whoever would bring it to zero makes the child and begins the next round. `bad` of the missing kinds have ended, but not
-- well. It rests (opened_at IS NULL) while nobody has arrived for the round.
CREATE TABLE windlass.fan_in (
    id bigint GENERATED ALWAYS AS IDENTITY,
    opened_at timestamptz,
    round integer NOT NULL DEFAULT 1,
    missing smallint NOT NULL,
    bad smallint NOT NULL DEFAULT 0,
    rule text NOT NULL,
    key text NOT NULL,
    CONSTRAINT fan_in_pkey PRIMARY KEY (id),
    CONSTRAINT fan_in_of_key UNIQUE (rule, key),
    CONSTRAINT fan_in_round CHECK (round >= 1),
    CONSTRAINT fan_in_missing CHECK (missing > 0 AND bad BETWEEN 0 AND missing)
) WITH (fillfactor = 70);
CREATE INDEX fan_in_open ON windlass.fan_in (rule, id) WHERE opened_at IS NOT NULL;

-- Which end of which job a rule has seen: each once. For a fan-in with the round it belongs to and, until the child is made, what
-- it adds to the child's arguments, so that history can go while others are waited for. Of a kind that ends more than once in a
-- round, one `counts`. `asked` says that somebody's rights are to be passed on.
CREATE TABLE windlass.rule_hit (
    parent uuid NOT NULL,
    child uuid,
    at timestamptz NOT NULL,
    fan_in bigint,
    round integer,
    generation smallint NOT NULL,
    counts boolean NOT NULL,
    asked boolean NOT NULL,
    rule text NOT NULL,
    kind text NOT NULL,
    state text NOT NULL,
    error text,
    data jsonb,
    CONSTRAINT rule_hit_pkey PRIMARY KEY (parent, rule, generation),
    CONSTRAINT rule_hit_state CHECK (state IN ('completed', 'failed', 'cancelled')),
    CONSTRAINT rule_hit_round CHECK ((fan_in IS NULL) = (round IS NULL)),
    CONSTRAINT rule_hit_error CHECK (error IS NULL OR child IS NULL)
);
CREATE UNIQUE INDEX rule_hit_counting ON windlass.rule_hit (fan_in, round, kind) WHERE counts;
CREATE INDEX rule_hit_of_child ON windlass.rule_hit (child) WHERE child IS NOT NULL;
CREATE INDEX rule_hit_left ON windlass.rule_hit (rule, parent) WHERE child IS NULL AND (fan_in IS NULL OR error IS NOT NULL);
