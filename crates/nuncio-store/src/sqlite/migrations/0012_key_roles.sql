-- Existing keys were created when every key could read the metrics, so they keep that right.
ALTER TABLE api_keys ADD COLUMN role TEXT NOT NULL DEFAULT 'app_with_metrics';
