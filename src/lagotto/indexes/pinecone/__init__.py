"""A Pinecone index as vector index: an eventually consistent service, reached through its SDK."""
