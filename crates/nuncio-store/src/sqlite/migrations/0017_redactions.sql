-- The signature over a record from which a person was taken out; its hash is still that of the record as it was.
ALTER TABLE audit_links ADD COLUMN redaction TEXT;

-- The ledgers of people who were forgotten: each entry without the person, with its hash as it was, and a signature.
CREATE TABLE erased_ledger (
    relation  TEXT    NOT NULL,
    seq       INTEGER NOT NULL,
    previous  TEXT    NOT NULL,
    hash      TEXT    NOT NULL,
    redaction TEXT    NOT NULL,
    entry     TEXT    NOT NULL,
    PRIMARY KEY (relation, seq)
) STRICT, WITHOUT ROWID;
