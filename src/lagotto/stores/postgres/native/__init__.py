"""What only PostgreSQL can do: ts_rank, trigrams of whole texts, both legs in one statement.

The default search needs nothing of this. A view gets these parts from a NativeExtension; the rest
of the store meets this folder only there, and where it keeps the index of words in step.
"""
