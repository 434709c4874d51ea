"""Where a coordinator keeps everything: the contract of a store, and SQLite and PostgreSQL."""
