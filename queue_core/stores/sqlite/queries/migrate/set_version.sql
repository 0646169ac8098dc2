-- Note the schema's version; a pragma takes no parameters, so the number is filled in.
PRAGMA user_version = {version}
