-- New records belong to chain 0. Others come from a store with several writers. `number` orders the records of all
-- chains.
ALTER TABLE audit_links RENAME COLUMN seq TO number;
ALTER TABLE audit_links ADD COLUMN chain INTEGER NOT NULL DEFAULT 0;
ALTER TABLE audit_links ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
UPDATE audit_links SET seq = number;
CREATE INDEX audit_links_of_other_chains ON audit_links (chain, seq) WHERE chain > 0;
