"""What to test a part of your own with: contracts to inherit, fakes, and a server to script.

The modules are imported one by one, since the contracts need pytest and Hypothesis.

    chunkers       ChunkerContract
    stores         StoreContract
    chunk_cache    ChunkCacheContract
    text_queries   the part of it that is about text conditions
    embedders      EmbedderContract
    rerankers      RerankerContract
    readers        ReaderContract, check_structure
    tokenizers     TokenizerContract
    hash_embedder  HashEmbedder, an embedder without a model
    server         ScriptedServer, an HTTP server that fails on command
    openai_server  embeddings_route, what OpenAI answers
    rerank_server  rerank_route, tei_rerank_route, chat_route: what rerankers and chat models answer
    strategies     Hypothesis strategies for texts and documents
    filters        Hypothesis strategies for filters
"""
