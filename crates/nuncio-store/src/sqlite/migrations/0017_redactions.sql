-- The signature over a redacted record; the stored hash is that of the original record.
ALTER TABLE audit_links ADD COLUMN redaction TEXT;

-- The redacted ledgers of erased people: each entry with the hash of the original entry and a signature.
CREATE TABLE erased_ledger (
    relation  TEXT    NOT NULL,
    seq       INTEGER NOT NULL,
    previous  TEXT    NOT NULL,
    hash      TEXT    NOT NULL,
    redaction TEXT    NOT NULL,
    entry     TEXT    NOT NULL,
    PRIMARY KEY (relation, seq)
) STRICT, WITHOUT ROWID;
