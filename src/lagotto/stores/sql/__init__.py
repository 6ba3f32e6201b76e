"""What SQLite and PostgreSQL share: tables, rows, reads, writes, filters, the change log."""
