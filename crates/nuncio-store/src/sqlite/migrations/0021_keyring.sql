-- Keys of the server that all nodes share, sealed under the secret key.
CREATE TABLE keyring (
    name     TEXT    NOT NULL PRIMARY KEY,
    sealed   TEXT    NOT NULL,
    revision INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
