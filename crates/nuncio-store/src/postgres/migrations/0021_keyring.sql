-- Keys of the server that all nodes share, sealed under the secret key.
CREATE TABLE keyring (
    name TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    sealed TEXT NOT NULL,
    revision BIGINT NOT NULL
);

-- What a store says about itself, such as where it was copied to.
CREATE TABLE store_info (
    name TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);
