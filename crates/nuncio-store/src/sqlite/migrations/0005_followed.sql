-- Followed domains. Their offers are long and change less often than the other columns, so they have their own table.
CREATE TABLE followed (
    domain     TEXT    NOT NULL PRIMARY KEY,
    followed_by TEXT    NOT NULL,
    since      INTEGER NOT NULL,
    last_seen  INTEGER,
    next_visit INTEGER NOT NULL,
    failures   INTEGER NOT NULL,
    listed     INTEGER NOT NULL,
    problem    TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE followed_offers (
    domain TEXT NOT NULL PRIMARY KEY REFERENCES followed (domain) ON DELETE CASCADE,
    offers TEXT NOT NULL
) STRICT;
