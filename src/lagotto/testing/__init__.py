"""Tools to test your own implementations: contract tests to inherit, fakes, a scripted server.

The modules are imported one by one, since the contracts need pytest and Hypothesis.

    chunkers       ChunkerContract
    stores         StoreContract
    chunk_cache    ChunkCacheContract
    indexes        TextIndexContract, VectorIndexContract, and the same for those that follow a log
    change_log     MemoryChangeLog, and snapshots of it: the oracle of indexes
    text_queries   TextQueryContract, the part of StoreContract on text conditions
    histories      HistoryContract, the part of StoreContract on writes, removals and searches
    embedders      EmbedderContract
    rerankers      RerankerContract
    readers        ReaderContract, check_structure
    tokenizers     TokenizerContract
    hash_embedder  HashEmbedder, an embedder without a model
    server         ScriptedServer, an HTTP server whose replies a test decides
    openai_server  embeddings_route, as OpenAI replies
    rerank_server  rerank_route, tei_rerank_route, chat_route, as rerank services and LLMs reply
    postgres       PostgresServer, a temporary PostgreSQL server
    strategies     Hypothesis strategies for texts and documents
    filters        Hypothesis strategies for filters
"""
