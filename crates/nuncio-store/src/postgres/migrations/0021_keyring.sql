-- Keys of the server that all nodes share, sealed under the secret key.
CREATE TABLE keyring (
    name TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    sealed TEXT NOT NULL,
    revision BIGINT NOT NULL
);
