-- People, their devices, agent accounts, and the permissions that people give to agents.

CREATE TABLE people (
    name       TEXT    NOT NULL PRIMARY KEY,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE invites (
    code       TEXT    NOT NULL PRIMARY KEY,
    person     TEXT    NOT NULL REFERENCES people (name),
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    used_by    TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX invites_by_person ON invites (person, created_at);

CREATE TABLE devices (
    id          TEXT    NOT NULL PRIMARY KEY,
    person      TEXT    NOT NULL REFERENCES people (name),
    name        TEXT    NOT NULL,
    key         TEXT    NOT NULL UNIQUE,
    enrolled_at INTEGER NOT NULL,
    revoked_at  INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX devices_by_person ON devices (person, enrolled_at, id);

-- Nonces of signed requests, each of which is accepted once.
CREATE TABLE nonces (
    digest     TEXT    NOT NULL PRIMARY KEY,
    kept_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX nonces_kept ON nonces (kept_until);

-- The columns beside the JSON of an account are copies for indexes, or values that change separately.
CREATE TABLE accounts (
    id               TEXT    NOT NULL PRIMARY KEY,
    owner            TEXT    NOT NULL,
    public           INTEGER NOT NULL CHECK (public IN (0, 1)),
    token            TEXT,
    created_at       INTEGER NOT NULL,
    manifest_version INTEGER NOT NULL,
    manifest_hash    TEXT,
    revision         INTEGER NOT NULL,
    -- Search words: the names and the texts of the manifest, in lower case.
    words            TEXT    NOT NULL,
    content          TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX accounts_by_owner ON accounts (owner, id);
CREATE UNIQUE INDEX accounts_by_token ON accounts (token) WHERE token IS NOT NULL;
CREATE INDEX accounts_public ON accounts (id) WHERE public = 1;

CREATE TABLE manifests (
    agent    TEXT    NOT NULL REFERENCES accounts (id),
    version  INTEGER NOT NULL,
    hash     TEXT,
    -- The manifest version without the manifest, as JSON.
    content  TEXT    NOT NULL,
    manifest TEXT,
    PRIMARY KEY (agent, version),
    CHECK ((hash IS NULL) = (manifest IS NULL))
) STRICT;

CREATE TABLE lineages (
    agent   TEXT NOT NULL PRIMARY KEY REFERENCES accounts (id),
    content TEXT NOT NULL
) STRICT;

-- Each grant of a relation has its own row, so that a one-time grant can be used up alone.
CREATE TABLE relations (
    id         TEXT    NOT NULL PRIMARY KEY,
    person     TEXT    NOT NULL REFERENCES people (name),
    agent      TEXT    NOT NULL REFERENCES accounts (id),
    active     INTEGER NOT NULL CHECK (active IN (0, 1)),
    created_at INTEGER NOT NULL,
    revision   INTEGER NOT NULL,
    content    TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX relations_active ON relations (agent, person) WHERE active = 1;
CREATE INDEX relations_by_person ON relations (person, id);

CREATE TABLE consents (
    id       TEXT    NOT NULL PRIMARY KEY,
    relation TEXT    NOT NULL REFERENCES relations (id) ON DELETE CASCADE,
    scope    TEXT    NOT NULL,
    once     INTEGER NOT NULL CHECK (once IN (0, 1)),
    content  TEXT    NOT NULL,
    UNIQUE (relation, scope)
) STRICT, WITHOUT ROWID;

CREATE TABLE ledger (
    relation TEXT    NOT NULL REFERENCES relations (id),
    seq      INTEGER NOT NULL,
    entry    TEXT    NOT NULL,
    PRIMARY KEY (relation, seq)
) STRICT, WITHOUT ROWID;

-- The last notification number of each recipient; it stays when old notifications are deleted.
CREATE TABLE mailboxes (
    recipient TEXT    NOT NULL PRIMARY KEY,
    seq       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE mail (
    recipient TEXT    NOT NULL REFERENCES mailboxes (recipient),
    seq       INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    happening TEXT    NOT NULL,
    PRIMARY KEY (recipient, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX mail_by_age ON mail (at);

CREATE TABLE mail_read (
    recipient TEXT    NOT NULL REFERENCES mailboxes (recipient),
    reader    TEXT    NOT NULL,
    seq       INTEGER NOT NULL,
    PRIMARY KEY (recipient, reader)
) STRICT, WITHOUT ROWID;
