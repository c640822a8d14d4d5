-- The secret of a key that signs requests, sealed; keys that are sent have none.
ALTER TABLE api_keys ADD COLUMN sealed TEXT;
