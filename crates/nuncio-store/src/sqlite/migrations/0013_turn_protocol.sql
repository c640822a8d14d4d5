-- The protocol of the request that began a turn. Turns from before this column count as AAP.
ALTER TABLE turns ADD COLUMN protocol TEXT NOT NULL DEFAULT 'aap';
