"""The embedded store.

database        the file: opening it, recognising it, explaining its errors
store           SqliteStore: assembly
view            what one search sees
index_folder    the indexes beside the file: whose they are, who may change them
vector_leg      keeps lagotto.indexes.vectors in step
allowed         what a filter lets through
text_leg        what the store asks of its full-text index
tantivy_leg     keeps the index of tantivy_text in step
fts5_leg        full text inside the file
"""
