-- Expiry of keys, and rotation of their secrets. The previous secret is accepted until `previous_until`.
ALTER TABLE api_keys ADD COLUMN rotated_at INTEGER;
ALTER TABLE api_keys ADD COLUMN expires_at INTEGER;
ALTER TABLE api_keys ADD COLUMN lifetime_seconds INTEGER;
ALTER TABLE api_keys ADD COLUMN previous_digest TEXT;
ALTER TABLE api_keys ADD COLUMN previous_sealed TEXT;
ALTER TABLE api_keys ADD COLUMN previous_until INTEGER;
