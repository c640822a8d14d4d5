-- The number of turns, whether one is running, and the number of the next message are computed from the turns and
-- messages of a session, so that a turn does not write to the row of its session.
ALTER TABLE sessions DROP COLUMN turns;
ALTER TABLE sessions DROP COLUMN running;
ALTER TABLE sessions DROP COLUMN next_message;

CREATE VIEW session_states AS
SELECT id, owner, agent, created_at, pending, settings, summary,
       COALESCE((SELECT max(number) FROM turns WHERE session = id), 0) AS turns,
       EXISTS (SELECT 1 FROM turns WHERE session = id AND ended_at IS NULL) AS running,
       COALESCE((SELECT max(number) + 1 FROM messages WHERE session = id), 0) AS next_message
FROM sessions;
