-- An execution's id begins with the time, so that new ones go to the end of every index.

CREATE TABLE executions (
    id          TEXT    NOT NULL PRIMARY KEY,
    state       TEXT    NOT NULL,
    attempt     INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    -- The process that runs an unfinished execution, and the end of its lease.
    owner       TEXT,
    lease_until INTEGER,
    -- End of the retention of a finished execution.
    kept_until  INTEGER,
    -- Final state of a finished execution, as JSON.
    outcome     TEXT,
    -- The accepted invocation, as JSON.
    content     TEXT    NOT NULL,
    CHECK ((owner IS NULL) = (outcome IS NOT NULL) AND (kept_until IS NULL) = (outcome IS NULL))
) STRICT;

CREATE INDEX executions_unfinished ON executions (id) WHERE owner IS NOT NULL;
CREATE INDEX executions_kept ON executions (kept_until) WHERE kept_until IS NOT NULL;

CREATE TABLE execution_keys (
    caller    TEXT NOT NULL,
    skill     TEXT NOT NULL,
    key       TEXT NOT NULL,
    body      TEXT NOT NULL,
    execution TEXT NOT NULL REFERENCES executions (id) ON DELETE CASCADE,
    PRIMARY KEY (caller, skill, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX execution_keys_by_execution ON execution_keys (execution);

-- The columns beside the JSON of a task are copies for the index.
CREATE TABLE tasks (
    id         TEXT    NOT NULL PRIMARY KEY,
    open       INTEGER NOT NULL CHECK (open IN (0, 1)),
    created_at INTEGER NOT NULL,
    execution  TEXT REFERENCES executions (id) ON DELETE CASCADE,
    content    TEXT    NOT NULL
) STRICT;

CREATE INDEX tasks_open ON tasks (created_at, id) WHERE open = 1;
CREATE INDEX tasks_by_execution ON tasks (execution) WHERE execution IS NOT NULL;
