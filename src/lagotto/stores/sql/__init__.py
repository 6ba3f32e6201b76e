"""What SQLite and PostgreSQL share: tables, rows, reads, writes, filters, the change log."""

SCHEMA_VERSION = 11
"""The version of the tables; `migrations` brings older ones up to date."""
