-- Deferred work. What a job is about is stored in tables of its own; a job without such a row is removed when it runs.
-- The jobs of a receiver in one lane run one at a time, by number; without a lane, `seq` is zero.
CREATE TABLE jobs (
    kind TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    receiver TEXT COLLATE "C" NOT NULL,
    lane TEXT COLLATE "C",
    seq BIGINT NOT NULL,
    due BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    claimed_by TEXT COLLATE "C",
    claimed_until BIGINT,
    term BIGINT NOT NULL,
    PRIMARY KEY (kind, key)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX jobs_due ON jobs (kind, due);
CREATE INDEX jobs_by_receiver ON jobs (kind, receiver, seq);
CREATE INDEX jobs_by_lane ON jobs (kind, receiver, lane, seq) WHERE lane IS NOT NULL;
CREATE INDEX jobs_claimed ON jobs (claimed_by) WHERE claimed_by IS NOT NULL;

INSERT INTO jobs (kind, key, receiver, lane, seq, due, attempts, term)
SELECT 'callback', execution, COALESCE(substring(content::JSON ->> 'callback' FROM '^[a-z]+://[^/]+'), ''), NULL, 0, due,
    attempts, 0
FROM callbacks JOIN executions ON executions.id = callbacks.execution;
DROP TABLE callbacks;

INSERT INTO jobs (kind, key, receiver, lane, seq, due, attempts, term)
SELECT 'delivery', recipient || '/' || seq, recipient, lane, seq, due, attempts, 0 FROM deliveries;
DROP TABLE deliveries;

INSERT INTO jobs (kind, key, receiver, lane, seq, due, attempts, term)
SELECT 'probe', recipient, recipient, NULL, 0, COALESCE(probe_at, 0), 0, 0 FROM webhooks WHERE state = 'unreachable';

INSERT INTO jobs (kind, key, receiver, lane, seq, due, attempts, term)
SELECT 'reply', id, session, NULL, 0, due, COALESCE((content::JSON ->> 'attempts')::BIGINT, 0), 0 FROM owed_answers;
ALTER TABLE owed_answers DROP COLUMN due;

INSERT INTO jobs (kind, key, receiver, lane, seq, due, attempts, term)
SELECT 'visit', domain, COALESCE(substring(domain FROM '://([^:/]+)'), ''), NULL, 0, next_visit, 0, 0 FROM followed;

INSERT INTO jobs (kind, key, receiver, lane, seq, due, attempts, term)
SELECT 'check', url, COALESCE(substring(url FROM '://([^/]+)'), ''), NULL, 0, next_check, 0, 0 FROM directory;
