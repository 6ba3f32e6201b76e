"""Filters as SQL: conditions over documents and chunks, never NULL, so that NOT is exact."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from lagotto import filters as algebra
from lagotto._internal.concurrency import checkpoint
from lagotto.documents import Chunk, Document, JsonScalar
from lagotto.filters import And, Eq, FieldRef, Filter, Not, Or, ScalarKind, kind_of
from lagotto.indexes.base import ChunkKeys, FilterKeys
from lagotto.stores.sql import statements
from lagotto.stores.sql.read import ALL, Name, chunk_of, document_of
from lagotto.stores.sql.statements import FINDABLE, ReadConnection, Statement, Transaction

PAGE = 500
"""Documents that a listing reads at once."""

FIRST = ("", "")
"""Before the name of any document."""

AT_ONCE = 200
"""Conditions of one statement. SQLite takes 32,766 parameters and nests expressions up to 1,000
deep, which a condition adds one or two to; and planning takes longer than several statements."""

DEEP = 16
"""Levels of one statement: SQLite's parser keeps at most 100 words that wait for their ends."""


Condition = tuple[str, Mapping[str, Any]]
"""SQL with the values of its parameters."""


def resolve_filter(connection: ReadConnection, where: Filter) -> FilterKeys:
    """The chunks that can be found and match.

    And the documents, in a file: its text index has them.
    """
    where = algebra.merged(where)
    met, values = _meets(connection, where)
    if concerns_chunks(where):
        keys = Statement(f"{_CHUNKS} WHERE {FINDABLE} AND {met}").keys(connection, **values)
        return FilterKeys(np.sort(keys), where=where)
    matching = f"{_DOCUMENTS} WHERE {met}"
    if connection.dialect.name == "sqlite":
        documents = Statement(matching).keys(connection, **values)
        keys = statements.FINDABLE_OF_DOCUMENTS.keys(connection, documents=documents.tolist())
        return FilterKeys(keys, documents, where)
    within = f"SELECT key FROM chunk WHERE {FINDABLE} AND document_key IN ({matching})"
    return FilterKeys(np.sort(Statement(within).keys(connection, **values)), where=where)


COMPARED = 10_000
"""Values of a field that a misspelt one is compared with."""


def filter_notes(
    connection: ReadConnection, where: Filter, *, matches_some: bool
) -> tuple[str, ...]:
    """Notes on fields that no document has, or only with other values than the filter's."""

    def has_kind(name: str, kind: str) -> bool:
        return bool(statements.HAS_KIND.scalar(connection, field=name, kind=kind))

    names = algebra.metadata_fields(where)
    unknown = {name for name in names if not statements.HAS_FIELD.scalar(connection, field=name)}
    if unknown:
        return algebra.unknown_field_notes(unknown, statements.FIELDS.column(connection))
    if matches_some:
        return ()

    def texts_of(name: str) -> list[str]:
        if name in statements.OWN_TEXTS:
            return statements.OWN_TEXTS[name].column(connection, most=COMPARED)
        return statements.TEXTS_OF_FIELD.column(connection, field=name, most=COMPARED)

    wrong = algebra.other_kind_notes(where, has_kind)
    return wrong or algebra.misspelt_value_notes(where, texts_of)


def matching_keys(connection: ReadConnection, where: Filter) -> dict[Name, int]:
    """The keys of the documents that match, in order of collection and id."""
    where = algebra.merged(where)
    if concerns_chunks(where):
        documents, _ = _page(connection, where)
        return {document.ref: key for key, document in documents}
    met, values = _meets(connection, where)
    names = f"SELECT collection, id, key FROM document WHERE {met} ORDER BY collection, id"
    return {tuple(name): key for *name, key in Statement(names).rows(connection, **values)}


def read_matching_chunks(
    connection: ReadConnection, where: Filter, collection: str, document_id: str
) -> list[Chunk]:
    """The chunks of a document, parents first; none unless it matches."""
    named = And(Eq("collection", collection), Eq("document_id", document_id), where)
    if not matching_keys(connection, named):
        return []
    name = {"collection": collection, "document_id": document_id}
    return list(map(chunk_of, statements.CHUNKS_OF_DOCUMENT.records(connection, **name)))


async def paged_documents(read: Transaction, where: Filter) -> AsyncIterator[Document]:
    """The documents that match, a page at a time; `read` asks one state of the base.

    A document that matches throughout is on exactly one page, whatever is written between them.
    """
    where = algebra.merged(where)
    after: tuple[str, str] | None = FIRST
    while after is not None:
        documents, after = await read(partial(_page, where=where, after=after, size=PAGE))
        for _, document in documents:
            yield document


def _page(
    connection: ReadConnection, where: Filter, *, after: tuple[str, str] = FIRST, size: int = ALL
) -> tuple[list[tuple[int, Document]], tuple[str, str] | None]:
    """Documents that match, with their keys, and the last name that was read if there may be more.

    The pages of a document stand in its structure: for a filter about pages all are read, whole.
    """
    whole = concerns_chunks(where)
    met, values = ("true", {}) if whole else _meets(connection, where)
    records = Statement(
        f"SELECT {statements.WHOLE if whole else statements.OUTLINE} FROM document WHERE {met} "
        "AND (collection, id) > (:after_collection, :after_id) "
        "ORDER BY collection, id LIMIT :size"
    ).records(connection, **values, after_collection=after[0], after_id=after[1], size=size)
    documents = [(record["key"], document_of(record)) for record in records]
    last = documents[-1][1].ref if len(documents) == size else None
    return [pair for pair in documents if not whole or algebra.matches(where, pair[1])], last


_DOCUMENTS = "SELECT document.key FROM document"
_CHUNKS = "SELECT chunk.key FROM chunk JOIN document ON document.key = chunk.document_key"


def _meets(connection: ReadConnection, where: Filter) -> Condition:
    """A merged filter as a condition; of one with many conditions, the keys of what matches."""
    if _is_small(where):
        return condition(where)
    of_chunks = concerns_chunks(where)
    keys = _keys(connection, where, _CHUNKS if of_chunks else _DOCUMENTS).tolist()
    return f"{'chunk' if of_chunks else 'document'}.key IN (:matching key)", {"matching": keys}


def _keys(connection: ReadConnection, where: Filter, rows: str) -> ChunkKeys:
    """The keys of those of `rows` that match: half a filter at a time, until it is small."""
    checkpoint()
    if _is_small(where):
        met, values = condition(where)
        return Statement(f"{rows} WHERE {met}").keys(connection, **values)
    match where:
        case Not(inner):
            everything = _keys(connection, And(), rows)
            return np.setdiff1d(everything, _keys(connection, inner, rows))
        case And((single,)) | Or((single,)):
            return _keys(connection, single, rows)
        case And(filters) | Or(filters):
            half = len(filters) // 2
            some = _keys(connection, type(where)(*filters[:half]), rows)
            others = _keys(connection, type(where)(*filters[half:]), rows)
            both: ChunkKeys = (np.intersect1d if type(where) is And else np.union1d)(some, others)
            return both
    raise TypeError(f"not a filter: {where!r}")


def _is_small(where: Filter) -> bool:
    return sum(1 for _ in algebra.conditions(where)) <= AT_ONCE and algebra.depth(where) <= DEEP


def concerns_chunks(root: Filter) -> bool:
    """Whether chunks of one document may differ in the answer."""
    return "page" in algebra.fields(root)


def condition(root: Filter) -> Condition:
    """`root` as a condition on `document` and, for `page`, on `chunk`."""
    compiler = _Compiler()
    return compiler.condition(root), compiler.values


_OPERATORS = {"$eq": "=", "$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


class _Compiler:
    """Writes conditions, and gives each value a parameter."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def condition(self, root: Filter) -> str:
        match root:
            case And(filters):
                return _joined("AND", map(self.condition, filters), none="true")
            case Or(filters):
                return _joined("OR", map(self.condition, filters), none="false")
            case Not(inner):
                return f"NOT ({self.condition(inner)})"
            case algebra.Ne(field) | algebra.NotIn(field):
                return f"NOT ({self._any_of(field, root.operands)})"
            case algebra.Exists(field):
                return f"NOT ({self._missing(field)})"
            case Eq(field) | algebra.In(field):
                return self._any_of(field, root.operands)
            case algebra.Contains(field, value):
                return self._contains(field, value)
            case algebra.Gt() | algebra.Gte() | algebra.Lt() | algebra.Lte():
                return self._compares(root.field, root.operator, root.value)
        raise TypeError(f"not a filter: {root!r}")

    def _bind(self, value: JsonScalar | Sequence[JsonScalar]) -> str:
        name = f"value_{len(self.values)}"
        self.values[name] = int(value) if isinstance(value, bool) else value  # as rows have it
        return f":{name}"

    def _any_of(self, field: FieldRef, values: Sequence[JsonScalar]) -> str:
        """One condition for all values of a kind: databases limit how many OR may combine."""
        by_kind: dict[ScalarKind | None, list[Any]] = {}
        for kind, value in dict.fromkeys((kind_of(value), value) for value in values):
            by_kind.setdefault(kind, []).append(value)
        missing = [self._missing(field)] if by_kind.pop(None, None) else []
        met = [self._is_among(field, kind, some) for kind, some in by_kind.items() if kind]
        return _joined("OR", [*missing, *met], none="false")

    def _is_among(self, field: FieldRef, kind: ScalarKind, values: list[Any]) -> str:
        if len(values) == 1:
            return self._compares(field, "$eq", values[0])
        plain = [int(value) for value in values] if kind == "boolean" else values
        if field.name == "page":
            return self._page_among([value for value in plain if _is_whole(value)])
        listed = f"IN ({self._bind(plain)} {'text' if kind == 'text' else 'number'})"
        return self._is(field, kind, listed)

    def _is(self, field: FieldRef, kind: ScalarKind | None, compared: str) -> str:
        if field.path is None:
            return f"coalesce({_column(field)} {compared}, false)"
        return self._attribute(field, f"{self._kind(kind)} AND {_value_column(kind)} {compared}")

    def _missing(self, field: FieldRef) -> str:
        if field.path is not None:
            return f"NOT ({self._attribute(field, 'true')})"
        return f"{'chunk.page_first' if field.name == 'page' else _column(field)} IS NULL"

    def _compares(self, field: FieldRef, name: str, value: JsonScalar) -> str:
        if field.name == "page":
            return self._page(name, value)
        return self._is(field, kind_of(value), f"{_OPERATORS[name]} {self._bind(value)}")

    def _contains(self, field: FieldRef, value: JsonScalar) -> str:
        if field.name == "page":
            return self._page("$eq", value)
        if field.path is None:
            return f"coalesce(strpos({_column(field)}, {self._bind(value)}) > 0, false)"
        kind, bound = kind_of(value), self._bind(value)
        equal = f"attribute.in_list AND {self._kind(kind)} AND {_value_column(kind)} = {bound}"
        if kind != "text":
            return self._attribute(field, equal)
        inside = f"NOT attribute.in_list AND strpos(attribute.text_value, {bound}) > 0"
        return self._attribute(field, f"({inside} OR {equal})")

    def _page(self, name: str, value: JsonScalar) -> str:
        """Some page between the first and the last compares so with `value`."""
        if name == "$eq":
            if not _is_whole(value):
                return "false"
            bound = self._bind(value)
            return f"coalesce(chunk.page_first <= {bound} AND chunk.page_last >= {bound}, false)"
        column = "chunk.page_last" if name in ("$gt", "$gte") else "chunk.page_first"
        return f"coalesce({column} {_OPERATORS[name]} {self._bind(value)}, false)"

    def _page_among(self, numbers: list[Any]) -> str:
        """Some page of a chunk is one of `numbers`; most chunks have two pages at most."""
        pages = f"({self._bind(numbers)} number)"
        first, last = "chunk.page_first", "chunk.page_last"
        between = f"SELECT 1 FROM {pages} WHERE value BETWEEN {first} AND {last}"
        return (
            f"coalesce({first} IN {pages} OR {last} IN {pages} "
            f"OR ({last} > {first} + 1 AND EXISTS ({between})), false)"
        )

    def _attribute(self, field: FieldRef, test: str) -> str:
        """Some value of the field passes; not correlated, so that the index leads the way."""
        return (
            "document.key IN (SELECT attribute.document_key FROM attribute "
            f"WHERE attribute.field = {self._bind(field.name)} AND {test})"
        )

    def _kind(self, kind: ScalarKind | None) -> str:
        return f"attribute.kind = {self._bind(kind)}"


def _joined(word: str, conditions: Iterable[str], *, none: str) -> str:
    parts = list(conditions)
    return f"({f' {word} '.join(parts)})" if parts else none


def _column(field: FieldRef) -> str:
    return f"document.{'id' if field.name == 'document_id' else field.name}"


def _value_column(kind: ScalarKind | None) -> str:
    return "attribute.text_value" if kind == "text" else "attribute.number_value"


def _is_whole(value: JsonScalar) -> bool:
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
