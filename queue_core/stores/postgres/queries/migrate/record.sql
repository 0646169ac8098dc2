-- Note a migration as applied.
INSERT INTO schema_version (version, name) VALUES (%(version)s, %(name)s)
