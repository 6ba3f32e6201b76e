"""The store on a PostgreSQL server with pgvector and pg_trgm.

database        the address, and connections
schema          a base in a database: recognising it, making it, whose turn it is to write
problems        what the server says, as StoreErrors
tables          what only this store keeps: postings, terms
parameters      vectors and keys on the wire, in binary
copying         rows into tables by COPY
postings        full text as lists of postings, a segment per write
indexing        keeps the full-text index in step with the chunks
merging         few segments out of many
renewing        the full-text index made again
checking        what may be wrong with a base
vector_index    the graph of vectors, built when there are many
reader          asking the server within one transaction
text_search     BM25 and conditions over postings
vector_search   nearest vectors: by the graph, or exactly where that is better
fuzzy           terms like a word
remembered      answers that hold until something is written
looking         the beginning of a search
view            what one search sees
store           PostgresStore: assembly
"""
