"""The store on a PostgreSQL server with pgvector and pg_trgm.

The server
    address         where it is, and how many connections to have
    database        connections, to the primary and to standbys
    schema          a base in a database: recognising it, making it
    problems        what the server says, as StoreErrors
    limits          a search's deadline, told to the server
    parameters      vectors and keys on the wire, in binary

Writing
    tables          what only this store keeps: postings, terms
    turns           whose turn it is
    changing        what a transaction does that changes documents
    copying         rows into tables by COPY
    postings        full text as lists of postings, a segment per write
    indexing        keeps the full-text index in step with the chunks
    merging         few segments out of many
    renewing        the full-text index made again
    vector_index    the graph of vectors, built when there are many
    native_index    the index for the server's own full text, made when first asked for
    checking        what may be wrong with a base

Searching
    looking         the beginning of a search; `remembered` has what holds until the next write
    reader          asking the server within one transaction
    view            what one search sees
    vector_search   nearest vectors: by the graph, or exactly where that is better
    text_search     BM25 and conditions over postings
    native_search   the server's own full text; native_configs its languages
    fuzzy           terms like a word; `alike` compares whole texts
    single_search   both legs as one statement, which single_statement puts together

store               PostgresStore: assembly
"""
