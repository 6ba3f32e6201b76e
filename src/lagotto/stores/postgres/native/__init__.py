"""What only PostgreSQL can do: ts_rank, trigrams of whole texts, both legs in a single query."""
