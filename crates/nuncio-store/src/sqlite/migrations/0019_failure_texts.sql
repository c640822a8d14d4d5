-- The message of a failed execution no longer begins like the text about the call in a history.
UPDATE executions
SET outcome = json_set(
    outcome, '$.failure.message',
    substr(json_extract(outcome, '$.failure.message'), length('Tool execution failed: ') + 1))
WHERE json_extract(outcome, '$.failure.message') LIKE 'Tool execution failed: %';
