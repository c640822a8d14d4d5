-- The protocol a turn was begun by. Turns begun before it was recorded count as AAP's.
ALTER TABLE turns ADD COLUMN protocol TEXT NOT NULL DEFAULT 'aap';
