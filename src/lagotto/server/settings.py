"""Settings of a server: where it listens, and what a request may cost."""

from __future__ import annotations

from pydantic import Field

from lagotto.documents import Record

LOCAL_RERANKERS = ("lexical", "maxsim", "overlap", "overlap-idf")
"""Rerankers that open no connection and no file that a request could name."""


class ServerSettings(Record):
    """What a server is run with.

    Sizes are in bytes, times in seconds. `concurrency` requests work at once, `queue` more wait for
    them, and the next one is refused. `rerankers` are those that requests may name. `lease` is the
    time after which another process takes over the task of one that has died. `only_mcp` leaves
    out everything but MCP; with `mcp_write`, agents may write if their key may.
    """

    location: str
    embedder: str | None = None
    preset: str | None = None
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    workers: int = Field(default=1, ge=1)
    max_body: int = Field(default=1_000_000, ge=1)
    max_upload: int = Field(default=100_000_000, ge=1)
    max_query: int = Field(default=10_000, ge=1)
    max_top_k: int = Field(default=1_000, ge=1)
    max_conditions: int = Field(default=1_000, ge=1)
    max_texts: int = Field(default=1_000, ge=1)
    max_tasks: int = Field(default=1_000, ge=1)
    concurrency: int = Field(default=16, ge=1)
    queue: int = Field(default=64, ge=0)
    streams: int = Field(default=100, ge=1)
    timeout: float = Field(default=30.0, gt=0)
    body_timeout: float = Field(default=10.0, gt=0)
    shutdown_timeout: int = Field(default=3, ge=1)
    heartbeat: float = Field(default=15.0, gt=0)
    lease: float = Field(default=10.0, gt=0)
    keep_tasks: float = Field(default=7 * 86_400.0, gt=0)
    batching: bool = False
    rerankers: tuple[str, ...] = LOCAL_RERANKERS
    cors_origins: tuple[str, ...] = ()
    log_queries: bool = False
    only_mcp: bool = False
    mcp_write: bool = True
