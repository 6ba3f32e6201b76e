"""Indexes by name: what a base may be made with.

A name may be followed by an address, as in `qdrant://host:6333`: see `index_kind`.

An entry point in `lagotto.text_indexes` or `lagotto.vector_indexes` adds one. It names a function
that takes an IndexSite (and for vectors the model) and returns a TextIndex or VectorIndex. One with
an address must not ask it anything yet: it is also made to check what a user gives. The indexes
inside PostgreSQL are what a base there has unless it is made with others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from lagotto._internal.locations import mask_location
from lagotto._internal.registry import Registry
from lagotto._internal.trust import how_to_trust, is_trusted, trust
from lagotto.documents import digest
from lagotto.errors import ConfigError, IndexUnavailableError
from lagotto.indexes import base
from lagotto.indexes.base import TextIndex, VectorIndex
from lagotto.indexes.folder import IndexFolder


@dataclass(frozen=True, slots=True)
class IndexSite:
    """Whose index it is, where it may be kept, and how many seconds it waits for a lock or answer.

    `generation` counts how often the base was rebuilt; each has indexes of its own. `indexes` is
    the folder for files, which only a base in a file has. `address` is that of an index behind a
    network, as the user gave it.
    """

    base_id: str
    timeout: float
    generation: int = 0
    indexes: IndexFolder | None = None
    address: str = ""

    def name(self, role: str, signature: str, *, digits: int = 16) -> str:
        """The name of an index; other rules or another model need another one."""
        rebuilt = (self.generation,) if self.generation else ()
        return f"{role}-{digest(self.base_id, signature, *rebuilt)[:digits]}"

    def folder(self, role: str, signature: str) -> Path:
        return self.own_folder.path / self.name(role, signature, digits=8)

    @property
    def own_folder(self) -> IndexFolder:
        """The folder of all indexes of a base in a file."""
        if self.indexes is None:
            raise ConfigError("this index is kept in files, and needs a base in a file")
        return self.indexes


TEXT_INDEXES: Registry[Callable[[IndexSite], TextIndex[Any]]] = Registry(
    "text index",
    group="lagotto.text_indexes",
    builtin={
        "tantivy": "lagotto.indexes.tantivy.index:TantivyIndex",
        "fts5": "lagotto.stores.sqlite.fts5:Fts5Index",
        "postings": "lagotto.indexes.registry:inside_postgres",
        "qdrant": "lagotto.indexes.qdrant.text:QdrantTextIndex",
    },
)

VECTOR_INDEXES: Registry[Callable[..., VectorIndex[Any]]] = Registry(
    "vector index",
    group="lagotto.vector_indexes",
    builtin={
        "embedded": "lagotto.indexes.vectors.index:EmbeddedVectorIndex",
        "pgvector": "lagotto.indexes.registry:inside_postgres",
        "pinecone": "lagotto.indexes.pinecone:open_pinecone",
        "qdrant": "lagotto.indexes.qdrant.driver:open_qdrant_vectors",
    },
)


LOCAL = frozenset({"tantivy", "fts5", "postings", "embedded", "pgvector"})
"""Indexes that a base may name by itself: they are files beside it, or inside its database."""


def open_text_index(site: IndexSite) -> TextIndex[Any]:
    """The text index at the address of a site; a stand-in unless the user has named it."""
    if site.address not in LOCAL and not is_trusted(site.address):
        return UntrustedIndex(site, "text")
    return TEXT_INDEXES.get(index_kind(site.address))(site)


def open_vector_index(site: IndexSite, *, model_id: str, dimension: int) -> VectorIndex[Any]:
    """The vector index at the address of a site; a stand-in unless the user has named it."""
    if site.address not in LOCAL and not is_trusted(site.address):
        return UntrustedIndex(site, "vectors", model_id=model_id, dimension=dimension)
    make = VECTOR_INDEXES.get(index_kind(site.address))
    return make(site, model_id=model_id, dimension=dimension)


class UntrustedIndex(TextIndex[Any], VectorIndex[Any]):
    """Stands for an index that a base names and the user has not: it can't be reached.

    So searches read the record within limits, and note in `degraded` why; adding goes on.
    """

    remote = True
    position = base.START

    def __init__(
        self, site: IndexSite, role: base.IndexRole, *, model_id: str = "", dimension: int = 0
    ) -> None:
        self.kind = index_kind(site.address)
        self.model_id = model_id
        self.dimension = dimension
        self._what = f"the {role} index {mask_location(site.address)} is not used"
        self._advice = how_to_trust(site.address)

    def refresh(self, changes: base.ChangeLog | None = None) -> NoReturn:
        raise IndexUnavailableError(f"{self._what}; {self._advice}")

    catch_up = latest = delete = refresh

    def check(self, changes: base.ChangeLog) -> base.Finding:
        return base.problem(self._what, self._advice)


def inside_postgres(site: IndexSite, **_: object) -> Any:
    """Raise: these indexes are tables, which only a base on a PostgreSQL server has."""
    raise ConfigError(
        f"the index {site.address!r} is for bases on a PostgreSQL server; leave it out"
    )


def index_kind(choice: str) -> str:
    """The name in the registry: what comes before the address, as in `qdrant://host:6333`."""
    return choice.partition(":")[0]


@dataclass(frozen=True, slots=True)
class IndexChoice:
    """The indexes that a user asks for; None where the store decides.

    A text index behind a network may be given without its address if it is the vector index's.
    """

    text: str | None = None
    vectors: str | None = None

    @classmethod
    def of(cls, *, text_index: str | None, vector_index: str | None) -> IndexChoice:
        """What the user asks for, checked; ConfigError for an unknown index."""
        for choice, known, role in (
            (text_index, TEXT_INDEXES, "text"),
            (vector_index, VECTOR_INDEXES, "vector"),
        ):
            if choice is not None and index_kind(choice) not in known.names():
                raise ConfigError(
                    f"no {role} index is called {index_kind(choice)!r}; there are: "
                    f"{', '.join(known.names())}"
                )
            if choice is not None and "@" in choice:
                raise ConfigError(
                    f"the address of the {role} index has a user or a key, which would be stored "
                    "with the base; give the key in the environment, such as QDRANT_API_KEY"
                )
        if text_index and vector_index and text_index == index_kind(vector_index):
            text_index = vector_index
        if vector_index and ":" in vector_index:
            # A base makes its vector index only once its first documents have been embedded. What
            # is wrong with its address, or a package that it lacks, is said before that.
            make = VECTOR_INDEXES.get(index_kind(vector_index))
            make(IndexSite("", timeout=1.0, address=vector_index), model_id="", dimension=1).close()
        return cls(text_index, vector_index)


def chosen(stored: str | None, wanted: str | None, *, usual: str, role: str, location: str) -> str:
    """The index of a base: the stored one, at the address that is wanted, if one is.

    Another kind of index is a ConfigError: a rebuild changes it. Without a stored one, the base is
    new, and has what is wanted, or the usual one. What the user names is recorded as trusted.
    """
    if wanted is None:
        return stored or usual
    if stored is None:
        return named(wanted)
    if index_kind(stored) != index_kind(wanted):
        raise ConfigError(
            f"{location} was made with {role}_index={stored!r}, not {wanted!r}; leave it out, or "
            f"change the base with `lagotto rebuild --{role}-index {wanted}`"
        )
    return named(wanted) if ":" in wanted else stored


def named(choice: str) -> str:
    """An index that the user has named, recorded as trusted."""
    if choice not in LOCAL:
        trust(choice)
    return choice
