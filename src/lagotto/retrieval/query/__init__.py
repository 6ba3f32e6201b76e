"""Understanding a query: its syntax, its type, what it quotes, what may be added to it."""
