"""Which sketch size suits some data."""
