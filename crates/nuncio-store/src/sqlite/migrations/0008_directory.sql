-- Directory of agents on other hosts, with their stored descriptions.
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
