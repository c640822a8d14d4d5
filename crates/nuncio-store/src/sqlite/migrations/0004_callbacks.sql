-- Executions that are over and whose callers want to be told.
CREATE TABLE callbacks (
    execution TEXT    NOT NULL PRIMARY KEY REFERENCES executions (id) ON DELETE CASCADE,
    due       INTEGER NOT NULL,
    attempts  INTEGER NOT NULL
) STRICT;

CREATE INDEX callbacks_due ON callbacks (due);
