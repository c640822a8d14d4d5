-- Times are milliseconds since 1970 in UTC; digests are hex; values with a JSON form in the core are stored as
-- JSON. The widest column comes last, so that the others are read without it.

CREATE TABLE sessions (
    id           TEXT    NOT NULL PRIMARY KEY,
    owner        TEXT    NOT NULL,
    agent        TEXT    NOT NULL,
    turns        INTEGER NOT NULL,
    running      INTEGER NOT NULL CHECK (running IN (0, 1)),
    next_message INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    pending      TEXT    NOT NULL,
    settings     TEXT    NOT NULL,
    summary      TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX sessions_by_owner ON sessions (owner, created_at, id);

CREATE TABLE messages (
    session TEXT    NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    number  INTEGER NOT NULL,
    turn    INTEGER NOT NULL,
    message TEXT    NOT NULL,
    PRIMARY KEY (session, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE turns (
    session    TEXT    NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    number     INTEGER NOT NULL,
    mode       TEXT    NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER,
    stop       TEXT,
    events     BLOB,
    PRIMARY KEY (session, number),
    CHECK ((ended_at IS NULL) = (stop IS NULL) AND (ended_at IS NULL) = (events IS NULL))
) STRICT;

CREATE INDEX turns_running ON turns (session, number) WHERE ended_at IS NULL;

CREATE TABLE remembered (
    owner   TEXT NOT NULL,
    request TEXT NOT NULL,
    key     TEXT NOT NULL,
    body    TEXT NOT NULL,
    session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    turn    INTEGER,
    PRIMARY KEY (owner, request, key)
) STRICT;

CREATE INDEX remembered_by_session ON remembered (session);

CREATE TABLE started_calls (
    key      TEXT    NOT NULL PRIMARY KEY,
    asked_at INTEGER NOT NULL,
    place    TEXT,
    record   TEXT    NOT NULL
) STRICT;

CREATE TABLE audit_links (
    seq      INTEGER NOT NULL PRIMARY KEY,
    previous TEXT    NOT NULL,
    hash     TEXT    NOT NULL,
    record   TEXT    NOT NULL
) STRICT;

CREATE TABLE api_keys (
    id         TEXT    NOT NULL PRIMARY KEY,
    name       TEXT,
    digest     TEXT    NOT NULL,
    scopes     TEXT    NOT NULL,
    person     TEXT,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;

-- The columns beside the JSON of a grant or an approval are copies for the index.
CREATE TABLE grants (
    id       TEXT    NOT NULL PRIMARY KEY,
    given_at INTEGER NOT NULL,
    content  TEXT    NOT NULL
) STRICT;

CREATE TABLE approvals (
    id       TEXT    NOT NULL PRIMARY KEY,
    state    TEXT    NOT NULL,
    asked_at INTEGER NOT NULL,
    content  TEXT    NOT NULL
) STRICT;

CREATE INDEX approvals_pending ON approvals (asked_at, id) WHERE state = 'pending';
