"""The store on a PostgreSQL server with pgvector and pg_trgm.

Connecting: address, database, schema, errors, timeouts, adapters (types).
Writing: tables, locks, write, bulk_copy. Searching: view_factory, transaction.
text_index/ holds BM25 postings in tables, vector_index/ pgvector's HNSW graph. native/ is what only
PostgreSQL can do: ts_rank, trigram search over whole texts, both legs in a single query. The
default search needs nothing of it.
"""
