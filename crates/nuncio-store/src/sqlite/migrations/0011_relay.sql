-- Conversations with encrypted messages, public key bundles, and webhooks. Members, owners and recipients are written
-- as 'person:NAME' or 'agent:ID'.

-- The columns beside the JSON of a conversation are copies for the index, and its last message number.
CREATE TABLE relay_conversations (
    number   INTEGER NOT NULL PRIMARY KEY,
    id       TEXT    NOT NULL UNIQUE,
    -- Unique key of a conversation of two; NULL for a group.
    pair     TEXT,
    revision INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    content  TEXT    NOT NULL
) STRICT;

CREATE UNIQUE INDEX relay_conversations_of_two ON relay_conversations (pair) WHERE pair IS NOT NULL;

CREATE TABLE relay_members (
    member       TEXT    NOT NULL,
    conversation TEXT    NOT NULL REFERENCES relay_conversations (id),
    read_seq     INTEGER NOT NULL,
    PRIMARY KEY (member, conversation)
) STRICT, WITHOUT ROWID;

-- `place` is the order of arrival, so that the oldest messages are found without an index of times.
CREATE TABLE relay_messages (
    place        INTEGER NOT NULL PRIMARY KEY,
    -- `number` of the conversation.
    conversation INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    sender       TEXT    NOT NULL,
    client_id    TEXT    NOT NULL,
    device       TEXT,
    content_type TEXT    NOT NULL,
    subtype      TEXT,
    at           INTEGER NOT NULL,
    envelope     BLOB    NOT NULL,
    UNIQUE (conversation, seq),
    UNIQUE (conversation, sender, client_id)
) STRICT;

-- Claims of tool calls, apart from the messages, so that a claim does not rewrite a message.
CREATE TABLE relay_claims (
    conversation INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    device       TEXT    NOT NULL,
    at           INTEGER NOT NULL,
    PRIMARY KEY (conversation, seq),
    FOREIGN KEY (conversation, seq) REFERENCES relay_messages (conversation, seq) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE key_bundles (
    device  TEXT    NOT NULL PRIMARY KEY,
    owner   TEXT    NOT NULL,
    seq     INTEGER NOT NULL,
    content TEXT    NOT NULL
) STRICT;

CREATE INDEX key_bundles_by_owner ON key_bundles (owner, device);

-- `place` is the order of arrival.
CREATE TABLE one_time_keys (
    place    INTEGER NOT NULL PRIMARY KEY,
    device   TEXT    NOT NULL REFERENCES key_bundles (device) ON DELETE CASCADE,
    key_id   TEXT    NOT NULL,
    fallback INTEGER NOT NULL CHECK (fallback IN (0, 1)),
    content  TEXT    NOT NULL,
    UNIQUE (device, key_id)
) STRICT;

CREATE TABLE key_backups (
    person  TEXT    NOT NULL PRIMARY KEY,
    at      INTEGER NOT NULL,
    content TEXT    NOT NULL
) STRICT;

CREATE TABLE webhooks (
    recipient     TEXT    NOT NULL PRIMARY KEY,
    state         TEXT    NOT NULL,
    failing_since INTEGER,
    probe_at      INTEGER,
    secret        TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- Waiting deliveries of webhooks. Deliveries of a lane keep their order: only the first of a lane can be due.
CREATE TABLE deliveries (
    recipient TEXT    NOT NULL REFERENCES webhooks (recipient) ON DELETE CASCADE,
    seq       INTEGER NOT NULL,
    lane      TEXT    NOT NULL,
    is_first  INTEGER NOT NULL CHECK (is_first IN (0, 1)),
    attempts  INTEGER NOT NULL,
    due       INTEGER NOT NULL,
    PRIMARY KEY (recipient, seq),
    FOREIGN KEY (recipient, seq) REFERENCES mail (recipient, seq) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE INDEX deliveries_by_lane ON deliveries (recipient, lane, seq);
CREATE INDEX deliveries_due ON deliveries (due, recipient, seq) WHERE is_first = 1;

-- When the first delivery of a lane is deleted, the next one becomes the first.
CREATE TRIGGER deliveries_next AFTER DELETE ON deliveries WHEN old.is_first = 1
BEGIN
    UPDATE deliveries SET is_first = 1
    WHERE recipient = old.recipient
      AND seq = (SELECT min(seq) FROM deliveries WHERE recipient = old.recipient AND lane = old.lane);
END;

CREATE TABLE delivery_log (
    recipient TEXT    NOT NULL,
    seq       INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    content   TEXT    NOT NULL,
    PRIMARY KEY (recipient, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX delivery_log_by_age ON delivery_log (at);
