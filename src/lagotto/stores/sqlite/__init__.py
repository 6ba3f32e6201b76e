"""The embedded store: one file, and derived indexes beside it.

database       the file: opening it, recognising it, explaining its errors
store          SqliteStore: assembly, reads and writes
view_factory   the beginning of a search: one state of the file and of all indexes
follower       the thread that brings the indexes up to date
fts5_index     the text index inside the file
checks         what may be wrong with the file
"""
