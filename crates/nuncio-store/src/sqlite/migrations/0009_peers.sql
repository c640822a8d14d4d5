-- Drafted protocols, direct messages, and links between principals and people.

-- Drafted protocols; the columns beside the JSON are copies for the index.
CREATE TABLE protocol_drafts (
    id          TEXT    NOT NULL PRIMARY KEY,
    counterpart TEXT    NOT NULL,
    agent       TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    state       TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    content     TEXT    NOT NULL,
    UNIQUE (counterpart, agent, key)
) STRICT;

CREATE INDEX protocol_drafts_open ON protocol_drafts (created_at, id)
    WHERE state IN ('draft', 'accepted_by_us', 'accepted_by_them');
CREATE INDEX protocol_drafts_by_end ON protocol_drafts (expires_at) WHERE state <> 'accepted';

-- Pending replies to direct messages.
CREATE TABLE owed_answers (
    id      TEXT    NOT NULL PRIMARY KEY,
    session TEXT    NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    due     INTEGER NOT NULL,
    content TEXT    NOT NULL
) STRICT;

CREATE INDEX owed_answers_by_due ON owed_answers (due, id);
CREATE INDEX owed_answers_by_session ON owed_answers (session);

-- Sent direct messages and their replies.
CREATE TABLE letters (
    agent       TEXT    NOT NULL,
    id          TEXT    NOT NULL,
    recipient   TEXT    NOT NULL,
    sent_at     INTEGER NOT NULL,
    answered_at INTEGER,
    answer      TEXT,
    PRIMARY KEY (agent, id),
    CHECK ((answered_at IS NULL) = (answer IS NULL))
) STRICT;

CREATE INDEX letters_by_time ON letters (sent_at);

-- Principals that belong to a person.
CREATE TABLE links (
    principal TEXT    NOT NULL PRIMARY KEY,
    person    TEXT    NOT NULL,
    since     INTEGER NOT NULL
) STRICT;
