-- Keys that exist already were made when every key could read the metrics, and keep that.
ALTER TABLE api_keys ADD COLUMN role TEXT NOT NULL DEFAULT 'app_with_metrics';
