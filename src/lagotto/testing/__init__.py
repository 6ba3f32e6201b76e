"""Tools to test your own implementations: contract tests to inherit, oracles, fakes, strategies.

The modules are imported one by one, since the contracts need pytest and Hypothesis.

    readers        ReaderContract, check_structure
    chunkers       ChunkerContract
    embedders      EmbedderContract, TokenizerContract
    rerankers      RerankerContract
    stores         StoreContract; its oracle is lagotto.stores.memory.MemoryStore
    chunk_cache    ChunkCacheContract
    indexes        contracts of text and vector indexes, and their oracle in memory
    hash_embedder  HashEmbedder, an embedder without a model
    strategies     Hypothesis strategies for texts, documents and filters
"""
