"""Full text in tables: BM25 over postings, a segment per write."""
