"""What only PostgreSQL can do: ts_rank, trigrams of whole texts, both legs in one statement.

The default search needs nothing of this. A view gets these parts from a NativeExtension, which is
all that the rest of the store imports from this folder.
"""
