-- Keys of publishers, who may publish events and nothing else.
ALTER TABLE api_keys DROP CONSTRAINT api_keys_role_check;
ALTER TABLE api_keys ADD CONSTRAINT api_keys_role_check
    CHECK (role IN ('admin', 'operator', 'viewer', 'worker', 'publisher'));
