-- Version 20 of the schema, with the tables and columns that the SQLite store has at the same version. Every key
-- has the collation "C": ids are ordered by their bytes, as in Rust, and a new version of the system's collations does
-- not break an index. JSON stays text, because `jsonb` orders keys anew and refuses some strings. Flags are 0 or 1.
-- Differences to SQLite: deliveries have no `is_first`, and `stored_bytes` has a row per writer lane.

CREATE TABLE sessions (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    owner TEXT COLLATE "C" NOT NULL,
    agent TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    pending TEXT NOT NULL,
    settings TEXT NOT NULL,
    summary TEXT
);

CREATE INDEX sessions_by_owner ON sessions (owner, created_at, id);

CREATE TABLE messages (
    session TEXT COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    number BIGINT NOT NULL,
    turn BIGINT NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (session, number)
);

CREATE TABLE turns (
    session TEXT COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    number BIGINT NOT NULL,
    mode TEXT COLLATE "C" NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    stop TEXT,
    events BYTEA,
    protocol TEXT COLLATE "C" NOT NULL DEFAULT 'aap',
    node TEXT COLLATE "C" NOT NULL DEFAULT 'unknown',
    PRIMARY KEY (session, number),
    CHECK ((ended_at IS NULL) = (stop IS NULL) AND (ended_at IS NULL) = (events IS NULL))
);

CREATE INDEX turns_running ON turns (node, session, number) WHERE ended_at IS NULL;

CREATE TABLE remembered (
    owner TEXT COLLATE "C" NOT NULL,
    request TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    body TEXT COLLATE "C" NOT NULL,
    session TEXT COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    turn BIGINT,
    PRIMARY KEY (owner, request, key)
);

CREATE INDEX remembered_by_session ON remembered (session);

CREATE TABLE started_calls (
    key TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    asked_at BIGINT NOT NULL,
    place TEXT COLLATE "C",
    record TEXT NOT NULL,
    node TEXT COLLATE "C" NOT NULL DEFAULT 'unknown'
);

CREATE TABLE audit_links (
    seq BIGINT NOT NULL PRIMARY KEY,
    previous TEXT COLLATE "C" NOT NULL,
    hash TEXT COLLATE "C" NOT NULL,
    record TEXT NOT NULL,
    redaction TEXT
);

CREATE TABLE api_keys (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    name TEXT COLLATE "C",
    digest TEXT COLLATE "C" NOT NULL,
    scopes TEXT NOT NULL,
    person TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    revoked_at BIGINT,
    sealed TEXT,
    role TEXT COLLATE "C" NOT NULL DEFAULT 'app_with_metrics',
    rotated_at BIGINT,
    expires_at BIGINT,
    lifetime_seconds BIGINT,
    previous_digest TEXT COLLATE "C",
    previous_sealed TEXT,
    previous_until BIGINT
);

CREATE TABLE grants (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    given_at BIGINT NOT NULL,
    content TEXT NOT NULL
);

CREATE TABLE approvals (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    state TEXT COLLATE "C" NOT NULL,
    asked_at BIGINT NOT NULL,
    content TEXT NOT NULL,
    node TEXT COLLATE "C"
);

CREATE INDEX approvals_pending ON approvals (asked_at, id) WHERE state = 'pending';

CREATE TABLE executions (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    state TEXT COLLATE "C" NOT NULL,
    attempt BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    owner TEXT COLLATE "C",
    kept_until BIGINT,
    outcome TEXT,
    content TEXT NOT NULL,
    call TEXT,
    unstarted BIGINT NOT NULL DEFAULT 0,
    caller TEXT COLLATE "C" NOT NULL DEFAULT '',
    CHECK ((owner IS NULL) = (outcome IS NOT NULL) AND (kept_until IS NULL) = (outcome IS NULL))
);

CREATE INDEX executions_kept ON executions (kept_until) WHERE kept_until IS NOT NULL;

CREATE TABLE execution_keys (
    caller TEXT COLLATE "C" NOT NULL,
    skill TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    body TEXT COLLATE "C" NOT NULL,
    execution TEXT COLLATE "C" NOT NULL REFERENCES executions (id) ON DELETE CASCADE,
    PRIMARY KEY (caller, skill, key)
);

CREATE INDEX execution_keys_by_execution ON execution_keys (execution);

CREATE TABLE tasks (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    open BIGINT NOT NULL CHECK (open IN (0, 1)),
    created_at BIGINT NOT NULL,
    execution TEXT COLLATE "C" REFERENCES executions (id) ON DELETE CASCADE,
    content TEXT NOT NULL,
    node TEXT COLLATE "C"
);

CREATE INDEX tasks_open ON tasks (created_at, id) WHERE open = 1;

CREATE INDEX tasks_by_execution ON tasks (execution) WHERE execution IS NOT NULL;

CREATE TABLE callbacks (
    execution TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES executions (id) ON DELETE CASCADE,
    due BIGINT NOT NULL,
    attempts BIGINT NOT NULL
);

CREATE INDEX callbacks_due ON callbacks (due);

CREATE TABLE followed (
    domain TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    followed_by TEXT COLLATE "C" NOT NULL,
    since BIGINT NOT NULL,
    last_seen BIGINT,
    next_visit BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    listed BIGINT NOT NULL,
    problem TEXT
);

CREATE TABLE followed_offers (
    domain TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES followed (domain) ON DELETE CASCADE,
    offers TEXT NOT NULL
);

CREATE VIEW session_states AS
SELECT id, owner, agent, created_at, pending, settings, summary,
       COALESCE((SELECT max(number) FROM turns WHERE session = id), 0) AS turns,
       COALESCE((SELECT ended_at IS NULL FROM turns WHERE session = id ORDER BY number DESC LIMIT 1), false) AS running,
       COALESCE((SELECT max(number) + 1 FROM messages WHERE session = id), 0) AS next_message
FROM sessions;

CREATE TABLE people (
    name TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at BIGINT NOT NULL
);

CREATE TABLE invites (
    code TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    person TEXT COLLATE "C" NOT NULL REFERENCES people (name),
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_by TEXT COLLATE "C"
);

CREATE INDEX invites_by_person ON invites (person, created_at);

CREATE TABLE devices (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    person TEXT COLLATE "C" NOT NULL REFERENCES people (name),
    name TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL UNIQUE,
    enrolled_at BIGINT NOT NULL,
    revoked_at BIGINT
);

CREATE INDEX devices_by_person ON devices (person, enrolled_at, id);

CREATE TABLE nonces (
    digest TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    kept_until BIGINT NOT NULL
);

CREATE INDEX nonces_kept ON nonces (kept_until);

CREATE TABLE accounts (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    owner TEXT COLLATE "C" NOT NULL,
    public BIGINT NOT NULL CHECK (public IN (0, 1)),
    token TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    manifest_version BIGINT NOT NULL,
    manifest_hash TEXT COLLATE "C",
    revision BIGINT NOT NULL,
    words TEXT NOT NULL,
    content TEXT NOT NULL
);

CREATE INDEX accounts_by_owner ON accounts (owner, id);

CREATE UNIQUE INDEX accounts_by_token ON accounts (token) WHERE token IS NOT NULL;

CREATE INDEX accounts_public ON accounts (id) WHERE public = 1;

CREATE TABLE manifests (
    agent TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
    version BIGINT NOT NULL,
    hash TEXT COLLATE "C",
    content TEXT NOT NULL,
    manifest TEXT,
    PRIMARY KEY (agent, version),
    CHECK ((hash IS NULL) = (manifest IS NULL))
);

CREATE TABLE lineages (
    agent TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES accounts (id),
    content TEXT NOT NULL
);

CREATE TABLE relations (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    person TEXT COLLATE "C" NOT NULL REFERENCES people (name),
    agent TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
    active BIGINT NOT NULL CHECK (active IN (0, 1)),
    created_at BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    content TEXT NOT NULL
);

CREATE UNIQUE INDEX relations_active ON relations (agent, person) WHERE active = 1;

CREATE INDEX relations_by_person ON relations (person, id);

CREATE TABLE consents (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    relation TEXT COLLATE "C" NOT NULL REFERENCES relations (id) ON DELETE CASCADE,
    scope TEXT COLLATE "C" NOT NULL,
    once BIGINT NOT NULL CHECK (once IN (0, 1)),
    content TEXT NOT NULL,
    UNIQUE (relation, scope)
);

CREATE TABLE ledger (
    relation TEXT COLLATE "C" NOT NULL REFERENCES relations (id),
    seq BIGINT NOT NULL,
    entry TEXT NOT NULL,
    PRIMARY KEY (relation, seq)
);

CREATE TABLE mailboxes (
    recipient TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    seq BIGINT NOT NULL
);

CREATE TABLE mail (
    recipient TEXT COLLATE "C" NOT NULL REFERENCES mailboxes (recipient),
    seq BIGINT NOT NULL,
    at BIGINT NOT NULL,
    happening TEXT NOT NULL,
    PRIMARY KEY (recipient, seq)
);

CREATE INDEX mail_by_age ON mail (at);

CREATE TABLE mail_read (
    recipient TEXT COLLATE "C" NOT NULL REFERENCES mailboxes (recipient),
    reader TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    PRIMARY KEY (recipient, reader)
);

CREATE TABLE directory (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    url TEXT COLLATE "C" NOT NULL,
    did TEXT COLLATE "C" NOT NULL,
    registrant TEXT COLLATE "C" NOT NULL,
    since BIGINT NOT NULL,
    verified BIGINT NOT NULL,
    next_check BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    problem TEXT,
    description TEXT NOT NULL
);

CREATE TABLE protocol_drafts (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    counterpart TEXT COLLATE "C" NOT NULL,
    agent TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    content TEXT NOT NULL,
    UNIQUE (counterpart, agent, key)
);

CREATE INDEX protocol_drafts_open ON protocol_drafts (created_at, id)
    WHERE state IN ('draft', 'accepted_by_us', 'accepted_by_them');

CREATE INDEX protocol_drafts_by_end ON protocol_drafts (expires_at) WHERE state <> 'accepted';

CREATE TABLE owed_answers (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    session TEXT COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    due BIGINT NOT NULL,
    content TEXT NOT NULL
);

CREATE INDEX owed_answers_by_due ON owed_answers (due, id);

CREATE INDEX owed_answers_by_session ON owed_answers (session);

CREATE TABLE letters (
    agent TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    recipient TEXT COLLATE "C" NOT NULL,
    sent_at BIGINT NOT NULL,
    answered_at BIGINT,
    answer TEXT,
    PRIMARY KEY (agent, id),
    CHECK ((answered_at IS NULL) = (answer IS NULL))
);

CREATE INDEX letters_by_time ON letters (sent_at);

CREATE TABLE links (
    principal TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    person TEXT COLLATE "C" NOT NULL,
    since BIGINT NOT NULL
);

CREATE TABLE relay_conversations (
    number BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    id TEXT COLLATE "C" NOT NULL UNIQUE,
    pair TEXT COLLATE "C",
    revision BIGINT NOT NULL,
    last_seq BIGINT NOT NULL,
    content TEXT NOT NULL
);

CREATE UNIQUE INDEX relay_conversations_of_two ON relay_conversations (pair) WHERE pair IS NOT NULL;

CREATE TABLE relay_members (
    member TEXT COLLATE "C" NOT NULL,
    conversation TEXT COLLATE "C" NOT NULL REFERENCES relay_conversations (id),
    read_seq BIGINT NOT NULL,
    PRIMARY KEY (member, conversation)
);

CREATE TABLE relay_messages (
    place BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    conversation BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    sender TEXT COLLATE "C" NOT NULL,
    client_id TEXT COLLATE "C" NOT NULL,
    device TEXT COLLATE "C",
    content_type TEXT NOT NULL,
    subtype TEXT,
    at BIGINT NOT NULL,
    envelope BYTEA NOT NULL,
    UNIQUE (conversation, seq),
    UNIQUE (conversation, sender, client_id)
);

CREATE TABLE relay_claims (
    conversation BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    device TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (conversation, seq),
    FOREIGN KEY (conversation, seq) REFERENCES relay_messages (conversation, seq) ON DELETE CASCADE
);

CREATE TABLE key_backups (
    person TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    at BIGINT NOT NULL,
    content TEXT NOT NULL
);

CREATE TABLE webhooks (
    recipient TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    state TEXT COLLATE "C" NOT NULL,
    failing_since BIGINT,
    probe_at BIGINT,
    secret TEXT NOT NULL
);

CREATE TABLE deliveries (
    recipient TEXT COLLATE "C" NOT NULL REFERENCES webhooks (recipient) ON DELETE CASCADE,
    seq BIGINT NOT NULL,
    lane TEXT COLLATE "C" NOT NULL,
    attempts BIGINT NOT NULL,
    due BIGINT NOT NULL,
    PRIMARY KEY (recipient, seq),
    FOREIGN KEY (recipient, seq) REFERENCES mail (recipient, seq) ON DELETE CASCADE
);

CREATE INDEX deliveries_by_lane ON deliveries (recipient, lane, seq);

CREATE INDEX deliveries_due ON deliveries (due, recipient, seq);

CREATE TABLE delivery_log (
    recipient TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    at BIGINT NOT NULL,
    content TEXT NOT NULL,
    PRIMARY KEY (recipient, seq)
);

CREATE INDEX delivery_log_by_age ON delivery_log (at);

CREATE TABLE key_bundles (
    owner TEXT COLLATE "C" NOT NULL,
    device TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    content TEXT NOT NULL,
    PRIMARY KEY (owner, device)
);

CREATE TABLE one_time_keys (
    place BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    owner TEXT COLLATE "C" NOT NULL,
    device TEXT COLLATE "C" NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    fallback BIGINT NOT NULL CHECK (fallback IN (0, 1)),
    content TEXT NOT NULL,
    UNIQUE (owner, device, key_id),
    FOREIGN KEY (owner, device) REFERENCES key_bundles (owner, device) ON DELETE CASCADE
);

CREATE INDEX key_bundles_by_device ON key_bundles (device);


CREATE TABLE erased_ledger (
    relation TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    previous TEXT COLLATE "C" NOT NULL,
    hash TEXT COLLATE "C" NOT NULL,
    redaction TEXT NOT NULL,
    entry TEXT NOT NULL,
    PRIMARY KEY (relation, seq)
);

CREATE TABLE nodes (
    incarnation TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    host TEXT COLLATE "C" NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    started_at BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('alive', 'dead'))
);

CREATE INDEX executions_unfinished ON executions (owner, id) WHERE owner IS NOT NULL;

-- The number of bytes that each caller has stored, in one row per writer lane, so that lanes do not wait for each other.
-- The sum of the rows counts. Triggers update it, so that no statement can forget it. A row counts 100 bytes beside its
-- content, for its indexes. Rows of `local` and the operator are not counted.
CREATE TABLE stored_bytes (
    owner TEXT COLLATE "C" NOT NULL,
    lane BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    PRIMARY KEY (owner, lane)
);

CREATE FUNCTION count_bytes(counted TEXT, change BIGINT) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF counted IS NULL OR counted IN ('local', 'operator') OR change = 0 THEN
        RETURN;
    END IF;
    INSERT INTO stored_bytes (owner, lane, bytes)
    VALUES (counted, COALESCE(NULLIF(current_setting('nuncio.lane', true), ''), '0')::BIGINT, change)
    ON CONFLICT (owner, lane) DO UPDATE SET bytes = stored_bytes.bytes + excluded.bytes;
END $$;

CREATE FUNCTION count_session() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM count_bytes(NEW.owner, octet_length(NEW.settings) + 100);
        RETURN NEW;
    ELSIF TG_OP = 'UPDATE' THEN
        PERFORM count_bytes(NEW.owner, octet_length(NEW.settings) - octet_length(OLD.settings));
        RETURN NEW;
    END IF;
    -- Runs before the session is deleted, because its messages and turns are deleted with it.
    PERFORM count_bytes(OLD.owner, -(octet_length(OLD.settings) + 100
        + COALESCE((SELECT sum(octet_length(message) + 100) FROM messages WHERE session = OLD.id), 0)
        + COALESCE((SELECT sum(octet_length(events) + 100) FROM turns
                    WHERE session = OLD.id AND events IS NOT NULL), 0))::BIGINT);
    RETURN OLD;
END $$;

CREATE TRIGGER count_session AFTER INSERT ON sessions FOR EACH ROW
    WHEN (NEW.owner NOT IN ('local', 'operator')) EXECUTE FUNCTION count_session();
CREATE TRIGGER count_settings AFTER UPDATE OF settings ON sessions FOR EACH ROW
    WHEN (NEW.owner NOT IN ('local', 'operator')) EXECUTE FUNCTION count_session();
CREATE TRIGGER discount_session BEFORE DELETE ON sessions FOR EACH ROW
    WHEN (OLD.owner NOT IN ('local', 'operator')) EXECUTE FUNCTION count_session();

CREATE FUNCTION count_message() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_bytes((SELECT owner FROM sessions WHERE id = NEW.session), octet_length(NEW.message) + 100);
    RETURN NEW;
END $$;

CREATE TRIGGER count_message AFTER INSERT ON messages FOR EACH ROW EXECUTE FUNCTION count_message();

CREATE FUNCTION count_turn() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_bytes((SELECT owner FROM sessions WHERE id = NEW.session), octet_length(NEW.events) + 100);
    RETURN NEW;
END $$;

CREATE TRIGGER count_turn AFTER UPDATE OF events ON turns FOR EACH ROW
    WHEN (OLD.events IS NULL AND NEW.events IS NOT NULL) EXECUTE FUNCTION count_turn();

CREATE FUNCTION count_execution() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        PERFORM count_bytes(OLD.caller, -(octet_length(OLD.content) + COALESCE(octet_length(OLD.outcome), 0) + 100));
    END IF;
    IF TG_OP <> 'DELETE' THEN
        PERFORM count_bytes(NEW.caller, octet_length(NEW.content) + COALESCE(octet_length(NEW.outcome), 0) + 100);
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER count_execution AFTER INSERT ON executions FOR EACH ROW
    WHEN (NEW.caller NOT IN ('local', 'operator')) EXECUTE FUNCTION count_execution();
CREATE TRIGGER count_outcome AFTER UPDATE OF outcome ON executions FOR EACH ROW
    WHEN (NEW.caller NOT IN ('local', 'operator')) EXECUTE FUNCTION count_execution();
CREATE TRIGGER discount_execution AFTER DELETE ON executions FOR EACH ROW
    WHEN (OLD.caller NOT IN ('local', 'operator')) EXECUTE FUNCTION count_execution();

CREATE FUNCTION count_relayed() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM count_bytes(NEW.sender, octet_length(NEW.envelope) + 100);
    ELSE
        PERFORM count_bytes(OLD.sender, -(octet_length(OLD.envelope) + 100));
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER count_relayed AFTER INSERT OR DELETE ON relay_messages FOR EACH ROW EXECUTE FUNCTION count_relayed();

CREATE FUNCTION count_manifest() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM count_bytes((SELECT owner FROM accounts WHERE id = NEW.agent),
                            COALESCE(octet_length(NEW.manifest), 0) + 100);
    ELSE
        PERFORM count_bytes((SELECT owner FROM accounts WHERE id = OLD.agent),
                            -(COALESCE(octet_length(OLD.manifest), 0) + 100));
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER count_manifest AFTER INSERT OR DELETE ON manifests FOR EACH ROW EXECUTE FUNCTION count_manifest();

-- How long each incarnation may own work, in milliseconds on the clock of the database.
CREATE TABLE leases (
    incarnation TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES nodes (incarnation) ON DELETE CASCADE,
    until BIGINT NOT NULL
);

-- The number of the last transaction of each writer lane. It tells whether a transaction was committed whose
-- confirmation was lost, and whether the database lost transactions that it had confirmed.
CREATE TABLE commits (
    lane TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    number BIGINT NOT NULL,
    used_at TIMESTAMPTZ NOT NULL DEFAULT now()
) WITH (fillfactor = 50);
