-- How many attempts of an execution were interrupted before their program started.
ALTER TABLE executions ADD COLUMN unstarted INTEGER NOT NULL DEFAULT 0;
