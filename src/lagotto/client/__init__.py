"""Clients of a server: the verbs and the results of a knowledge base, over HTTP."""

from lagotto.client.async_client import AsyncClient

__all__ = ["AsyncClient"]
