-- The call an execution runs is noted in the execution itself until it is over.
ALTER TABLE executions ADD COLUMN call TEXT;
