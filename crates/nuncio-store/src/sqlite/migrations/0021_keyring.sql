-- Keys of the server that all nodes share, sealed under the secret key.
CREATE TABLE keyring (
    name     TEXT    NOT NULL PRIMARY KEY,
    sealed   TEXT    NOT NULL,
    revision INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What a store says about itself, such as where it was copied to.
CREATE TABLE store_info (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
