-- The encrypted secret of a key that signs requests; NULL for keys that are sent with the request.
ALTER TABLE api_keys ADD COLUMN sealed TEXT;
