"""The knowledge base: its verbs, and what they are made of."""
