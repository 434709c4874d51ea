"""The stores that tests of the coordinator run on."""

from tests.service.stores import postgres, postgres_url, sqlite_url, store_url

__all__ = ["postgres", "postgres_url", "sqlite_url", "store_url"]
