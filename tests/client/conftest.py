"""The stores of the coordinator's own tests."""

from tests.service.stores import postgres, postgres_url, sqlite_url, store_url

__all__ = ["postgres", "postgres_url", "sqlite_url", "store_url"]
