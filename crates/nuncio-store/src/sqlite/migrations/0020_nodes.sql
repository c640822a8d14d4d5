-- Each start of a node. Unfinished rows name the incarnation that runs them; rows from before this step name none that
-- is alive, and are ended or continued like those of a node that died.
CREATE TABLE nodes (
    incarnation TEXT    NOT NULL PRIMARY KEY,
    host        TEXT    NOT NULL,
    version     TEXT    NOT NULL,
    started_at  INTEGER NOT NULL,
    state       TEXT    NOT NULL CHECK (state IN ('alive', 'dead'))
) STRICT, WITHOUT ROWID;

ALTER TABLE turns ADD COLUMN node TEXT NOT NULL DEFAULT 'unknown';
ALTER TABLE started_calls ADD COLUMN node TEXT NOT NULL DEFAULT 'unknown';

-- Null for an approval or a task that outlives its process.
ALTER TABLE approvals ADD COLUMN node TEXT;
UPDATE approvals SET node = 'unknown' WHERE state = 'pending'
    AND id NOT IN (SELECT content ->> '$.approval' FROM protocol_drafts WHERE content ->> '$.approval' IS NOT NULL);
ALTER TABLE tasks ADD COLUMN node TEXT;
UPDATE tasks SET node = 'unknown' WHERE open = 1 AND execution IS NULL;

-- The owner of an execution keeps it until it is declared dead, without a lease of its own.
DROP INDEX executions_unfinished;
CREATE INDEX executions_unfinished ON executions (owner, id) WHERE owner IS NOT NULL;
ALTER TABLE executions DROP COLUMN lease_until;
