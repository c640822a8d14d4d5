-- A brain with a window gets the system messages of a session, however many other messages the session began with. The
-- JSON of a message begins with its role.
CREATE INDEX system_messages ON messages (session, number)
    WHERE turn = 0 AND substr(message, 1, 16) = '{"role":"system"';
