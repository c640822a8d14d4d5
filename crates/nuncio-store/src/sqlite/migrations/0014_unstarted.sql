-- The number of attempts of an execution that were interrupted before their program started.
ALTER TABLE executions ADD COLUMN unstarted INTEGER NOT NULL DEFAULT 0;
