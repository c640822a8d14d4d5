-- The authorization of the running call of an execution, stored until the call ends.
ALTER TABLE executions ADD COLUMN call TEXT;
