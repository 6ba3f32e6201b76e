"""The base as an MCP server, for agents: tools and resources within a token budget."""
