"""The store on a PostgreSQL server with pgvector and pg_trgm.

store          PostgresStore: assembly, reads and writes, checks, the next generation of a base
database       its address, connections, read transactions, locks and errors; binary values, COPY
schema         the tables, created and discarded
view_factory   the beginning of a search; indexes behind a network instead of those in tables
text_index     BM25 over postings in tables; vector_index: pgvector, its HNSW graph
native         what only PostgreSQL can do: ts_rank, trigrams of whole texts, both legs in a single
               query. The default search needs nothing of it
"""
