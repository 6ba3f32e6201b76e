"""Nearest vectors by pgvector: the HNSW graph, or exactly."""
