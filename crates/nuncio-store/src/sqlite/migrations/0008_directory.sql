-- Agents of other hosts that are listed here, with what is kept of their descriptions.
CREATE TABLE directory (
    id          TEXT    NOT NULL PRIMARY KEY,
    url         TEXT    NOT NULL,
    did         TEXT    NOT NULL,
    registrant  TEXT    NOT NULL,
    since       INTEGER NOT NULL,
    verified    INTEGER NOT NULL,
    next_check  INTEGER NOT NULL,
    failures    INTEGER NOT NULL,
    problem     TEXT,
    description TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
