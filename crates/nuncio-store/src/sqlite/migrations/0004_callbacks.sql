-- Callbacks that are due for finished executions.
CREATE TABLE callbacks (
    execution TEXT    NOT NULL PRIMARY KEY REFERENCES executions (id) ON DELETE CASCADE,
    due       INTEGER NOT NULL,
    attempts  INTEGER NOT NULL
) STRICT;

CREATE INDEX callbacks_due ON callbacks (due);
