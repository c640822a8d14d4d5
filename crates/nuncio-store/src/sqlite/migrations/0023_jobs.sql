-- Deferred work. What a job is about is stored in tables of its own; a job without such a row is removed when it runs.
CREATE TABLE jobs (
    kind          TEXT    NOT NULL,
    key           TEXT    NOT NULL,
    receiver      TEXT    NOT NULL,
    -- The jobs of a receiver in one lane run one at a time, by number: only the first of a lane can be claimed. Null if
    -- the job needs no order; `seq` is zero then.
    lane          TEXT,
    seq           INTEGER NOT NULL,
    is_first      INTEGER NOT NULL CHECK (is_first IN (0, 1)),
    due           INTEGER NOT NULL,
    attempts      INTEGER NOT NULL,
    claimed_by    TEXT,
    claimed_until INTEGER,
    -- Number of claims so far. What a claim ends or delays names its number.
    term          INTEGER NOT NULL,
    PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX jobs_due ON jobs (kind, due) WHERE is_first = 1;
CREATE INDEX jobs_first ON jobs (kind, receiver, seq) WHERE is_first = 1;
CREATE INDEX jobs_by_lane ON jobs (kind, receiver, lane, seq) WHERE lane IS NOT NULL;
CREATE INDEX jobs_claimed ON jobs (claimed_by) WHERE claimed_by IS NOT NULL;

-- The receiver of a callback is the origin of its address, which has a path: the text up to the first slash after it.
INSERT INTO jobs (kind, key, receiver, lane, seq, is_first, due, attempts, term)
SELECT 'callback', execution, substr(url, 1, instr(substr(url, 9), '/') + 7), NULL, 0, 1, due, attempts, 0
FROM (SELECT execution, due, attempts, ifnull(json_extract(content, '$.callback'), '') AS url
      FROM callbacks JOIN executions ON executions.id = callbacks.execution);
DROP TABLE callbacks;

-- What a delivery is about is in `mail`. The lane is a conversation, or empty for everything outside conversations.
INSERT INTO jobs (kind, key, receiver, lane, seq, is_first, due, attempts, term)
SELECT 'delivery', recipient || '/' || seq, recipient, lane, seq, is_first, due, attempts, 0 FROM deliveries;
DROP TABLE deliveries;

INSERT INTO jobs (kind, key, receiver, lane, seq, is_first, due, attempts, term)
SELECT 'reply', id, session, NULL, 0, 1, due, ifnull(json_extract(content, '$.attempts'), 0), 0 FROM owed_answers;
DROP INDEX owed_answers_by_due;
ALTER TABLE owed_answers DROP COLUMN due;

-- The receiver of a visit is the host of the domain, that of a check the authority of the URL: the text after '://' up
-- to the next colon or slash.
INSERT INTO jobs (kind, key, receiver, lane, seq, is_first, due, attempts, term)
SELECT 'visit', domain, substr(rest, 1, instr(replace(rest, '/', ':') || ':', ':') - 1), NULL, 0, 1, next_visit, 0, 0
FROM (SELECT domain, next_visit, substr(domain, instr(domain, '://') + 3) AS rest FROM followed);

INSERT INTO jobs (kind, key, receiver, lane, seq, is_first, due, attempts, term)
SELECT 'check', url, substr(rest, 1, instr(rest || '/', '/') - 1), NULL, 0, 1, next_check, 0, 0
FROM (SELECT url, next_check, substr(url, instr(url, '://') + 3) AS rest FROM directory);

INSERT INTO jobs (kind, key, receiver, lane, seq, is_first, due, attempts, term)
SELECT 'probe', recipient, recipient, NULL, 0, 1, ifnull(probe_at, 0), 0, 0 FROM webhooks WHERE state = 'unreachable';
