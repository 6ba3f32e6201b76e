"""Nearest vectors: exact search in small bases, a sketch with exact scores in larger ones.

sketch    one bit per dimension, which selects the rows to score
rows      rows that never change, the search in them, and their checksums
files     rows on disk
index     EmbeddedVectorIndex; VectorMatrix: its rows, and the tail added since they were written
"""
