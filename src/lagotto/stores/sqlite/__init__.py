"""The embedded store: one file, and derived indexes beside it.

store          SqliteStore: assembly, reads and writes, and the beginning of a search
database       the file: recognised, opened, discarded; its connections and errors
write          the file for SQLAlchemy: its tables, all that writes to them, and the next generation
fts5           the text index inside the file
checks         what may be wrong with the file
"""
