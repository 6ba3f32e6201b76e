"""The embedded store: one file, and derived indexes beside it.

store          SqliteStore: assembly, reads and writes
database       the file: recognising it, and the ways into it
connections    the way that searches take: the sqlite3 module alone
engine         the way that everything else takes: SQLAlchemy
schema         the tables, created or brought up to date
write          documents written, updated and deleted
rebuild        the next generation of a base, built beside it
view_factory   the beginning of a search: one state of the file and of all indexes
fts5_index     the text index inside the file; fts5_tables: its tables
checks         what may be wrong with the file
errors         what SQLite says is wrong, explained
discard        the creation of a base, taken back
"""
