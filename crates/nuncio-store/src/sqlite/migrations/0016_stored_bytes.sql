-- The number of bytes that each caller has stored: conversations, executions, sealed messages, manifests. Triggers
-- update it, so that no statement can forget it. A row counts 100 bytes beside its content, for its indexes. Rows of
-- `local` and the operator are not counted.
CREATE TABLE stored_bytes (
    owner TEXT    NOT NULL PRIMARY KEY,
    bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

ALTER TABLE executions ADD COLUMN caller TEXT NOT NULL DEFAULT '';
UPDATE executions SET caller = json_extract(content, '$.caller');

INSERT INTO stored_bytes (owner, bytes)
SELECT owner, sum(bytes) FROM (
    SELECT owner, octet_length(settings) + 100 AS bytes FROM sessions
    UNION ALL
    SELECT owner, octet_length(message) + 100 FROM messages JOIN sessions ON sessions.id = messages.session
    UNION ALL
    SELECT owner, octet_length(events) + 100 FROM turns JOIN sessions ON sessions.id = turns.session
    WHERE events IS NOT NULL
    UNION ALL
    SELECT caller, octet_length(content) + ifnull(octet_length(outcome), 0) + 100 FROM executions
    UNION ALL
    SELECT sender, octet_length(envelope) + 100 FROM relay_messages
    UNION ALL
    SELECT owner, ifnull(octet_length(manifest), 0) + 100 FROM manifests JOIN accounts ON accounts.id = manifests.agent
) WHERE owner NOT IN ('local', 'operator') GROUP BY owner;

CREATE TRIGGER count_session AFTER INSERT ON sessions WHEN new.owner NOT IN ('local', 'operator')
BEGIN
    INSERT INTO stored_bytes (owner, bytes) VALUES (new.owner, octet_length(new.settings) + 100)
    ON CONFLICT (owner) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER count_settings AFTER UPDATE OF settings ON sessions WHEN new.owner NOT IN ('local', 'operator')
BEGIN
    UPDATE stored_bytes SET bytes = bytes + octet_length(new.settings) - octet_length(old.settings)
    WHERE owner = new.owner;
END;

-- Runs before the session is deleted, because its messages and turns are deleted with it.
CREATE TRIGGER discount_session BEFORE DELETE ON sessions WHEN old.owner NOT IN ('local', 'operator')
BEGIN
    UPDATE stored_bytes SET bytes = max(0, bytes - octet_length(old.settings) - 100
        - ifnull((SELECT sum(octet_length(message) + 100) FROM messages WHERE session = old.id), 0)
        - ifnull((SELECT sum(octet_length(events) + 100) FROM turns WHERE session = old.id AND events IS NOT NULL), 0))
    WHERE owner = old.owner;
END;

CREATE TRIGGER count_message AFTER INSERT ON messages
BEGIN
    INSERT INTO stored_bytes (owner, bytes)
    SELECT owner, octet_length(new.message) + 100 FROM sessions
    WHERE id = new.session AND owner NOT IN ('local', 'operator')
    ON CONFLICT (owner) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER count_turn AFTER UPDATE OF events ON turns WHEN old.events IS NULL AND new.events IS NOT NULL
BEGIN
    INSERT INTO stored_bytes (owner, bytes)
    SELECT owner, octet_length(new.events) + 100 FROM sessions
    WHERE id = new.session AND owner NOT IN ('local', 'operator')
    ON CONFLICT (owner) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER count_execution AFTER INSERT ON executions WHEN new.caller NOT IN ('local', 'operator')
BEGIN
    INSERT INTO stored_bytes (owner, bytes)
    VALUES (new.caller, octet_length(new.content) + ifnull(octet_length(new.outcome), 0) + 100)
    ON CONFLICT (owner) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER count_outcome AFTER UPDATE OF outcome ON executions WHEN new.caller NOT IN ('local', 'operator')
BEGIN
    UPDATE stored_bytes
    SET bytes = bytes + ifnull(octet_length(new.outcome), 0) - ifnull(octet_length(old.outcome), 0)
    WHERE owner = new.caller;
END;

CREATE TRIGGER discount_execution AFTER DELETE ON executions WHEN old.caller NOT IN ('local', 'operator')
BEGIN
    UPDATE stored_bytes
    SET bytes = max(0, bytes - octet_length(old.content) - ifnull(octet_length(old.outcome), 0) - 100)
    WHERE owner = old.caller;
END;

CREATE TRIGGER count_relayed AFTER INSERT ON relay_messages
BEGIN
    INSERT INTO stored_bytes (owner, bytes) VALUES (new.sender, octet_length(new.envelope) + 100)
    ON CONFLICT (owner) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER discount_relayed AFTER DELETE ON relay_messages
BEGIN
    UPDATE stored_bytes SET bytes = max(0, bytes - octet_length(old.envelope) - 100) WHERE owner = old.sender;
END;

CREATE TRIGGER count_manifest AFTER INSERT ON manifests
BEGIN
    INSERT INTO stored_bytes (owner, bytes)
    SELECT owner, ifnull(octet_length(new.manifest), 0) + 100 FROM accounts
    WHERE id = new.agent AND owner NOT IN ('local', 'operator')
    ON CONFLICT (owner) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER discount_manifest AFTER DELETE ON manifests
BEGIN
    UPDATE stored_bytes SET bytes = max(0, bytes - ifnull(octet_length(old.manifest), 0) - 100)
    WHERE owner = (SELECT owner FROM accounts WHERE id = old.agent);
END;
