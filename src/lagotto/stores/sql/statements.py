"""The named queries: what searches, indexes and listings read, for every database.

`queries` runs them. All parameters are bound by name; lists of values are one parameter each.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    ColumnElement,
    Integer,
    ScalarSelect,
    Select,
    Text,
    bindparam,
    cast,
    exists,
    func,
    literal,
    literal_column,
    select,
    true,
)

from lagotto.filters.fields import RESERVED
from lagotto.stores.sql.queries import SEPARATOR
from lagotto.stores.sql.read import OUTLINE
from lagotto.stores.sql.tables import (
    AttributeRow,
    ChunkRow,
    ChunkSetRow,
    ChunkTextRow,
    Counter,
    DocumentRow,
    EmbeddingRow,
    HistoryRow,
    IsAmong,
    ListKind,
    MetadataUpdateRow,
    RemovalRow,
    Setting,
    ValueList,
)

CHUNK_TEXT = func.coalesce(
    ChunkTextRow.text,
    func.substr(
        DocumentRow.text,
        cast(ChunkRow.start + 1, Integer),
        cast(ChunkRow.end - ChunkRow.start, Integer),
    ),
)
"""The text of a chunk; cut out of its document's if its own row is lost.

The statement joins ChunkTextRow with `TEXT_ROW`, outer.
"""

TEXT_ROW = ChunkTextRow.chunk_key == ChunkRow.key

OUTLINE_COLUMNS = [
    column for column in DocumentRow.__table__.columns if column.name not in ("text", "structure")
]
"""What a document is shown with where its text is not needed."""


def is_among(column: Any, name: str, kind: ListKind) -> ColumnElement[bool]:
    """Whether a column equals one of the values of the parameter `name`."""
    return IsAmong(column, bindparam(name, type_=ValueList(kind)))


def select_passages() -> Select[Any]:
    """Asks for chunks with their texts and the outlines of their documents."""
    outline = [column for column in OUTLINE_COLUMNS if column.name != "key"]
    return _CHUNKS.add_columns(*(column.label(f"{OUTLINE}{column.name}") for column in outline))


def _counted(where: ColumnElement[bool]) -> Select[Any]:
    """Asks for each known language with the number of documents in it, up to `most`.

    The next language is looked up in the index, which has a step per language then, not per
    document.
    """
    found = select(func.min(DocumentRow.language).label("language")).cte("found", recursive=True)
    following: ScalarSelect[str] = (
        select(func.min(DocumentRow.language))
        .where(DocumentRow.language > found.c.language)
        .scalar_subquery()
    )
    found = found.union_all(select(following).where(found.c.language.is_not(None)))
    some = (
        select(literal(1, Integer).label("one"))
        .select_from(DocumentRow)
        .where(DocumentRow.language == found.c.language, where)
        .limit(bindparam("most", type_=Integer))
        .correlate(found)
        .subquery()
    )
    number = select(func.count()).select_from(some).scalar_subquery()
    return select(found.c.language, number).where(found.c.language.is_not(None))


_FINDABLE = ChunkRow.level != "parent"
_IN_COLLECTION = DocumentRow.collection == bindparam("collection")
_NAMED = (
    is_among(DocumentRow.collection, "collections", "text"),
    is_among(DocumentRow.id, "ids", "text"),
)
"""Of these collections and with these ids: an index finds them, and some more than were asked for.

SQLite would read the whole index for a list of pairs.
"""

# Settings and size of a base

SETTING = select(Setting.value).where(Setting.name == bindparam("name"))
SETTINGS = select(Setting.name, Setting.value).where(is_among(Setting.name, "names", "text"))
COUNTER = select(Counter.value).where(Counter.name == bindparam("name"))
COLLECTION_SIZES = select(DocumentRow.collection, func.count()).group_by(DocumentRow.collection)
KNOWN_LANGUAGES = select(DocumentRow.language).where(DocumentRow.language.is_not(None)).distinct()
OF_UNKNOWN_LANGUAGE = select(func.count()).where(DocumentRow.language.is_(None))
FINDABLE_CHUNKS = select(func.count()).where(_FINDABLE)

# Languages

LANGUAGES = _counted(true())
LANGUAGES_OF_COLLECTION = _counted(_IN_COLLECTION)
ANY_UNKNOWN_LANGUAGE = select(exists().where(DocumentRow.language.is_(None)))
LANGUAGE_COUNTS = (
    select(DocumentRow.collection, DocumentRow.language, func.count())
    .where(DocumentRow.language.is_not(None))
    .group_by(DocumentRow.collection, DocumentRow.language)
)

# Documents

DOCUMENT = select(DocumentRow.__table__).where(
    _IN_COLLECTION, DocumentRow.id == bindparam("document_id")
)
DOCUMENTS = select(DocumentRow.__table__).where(*_NAMED)
DOCUMENT_KEYS = select(DocumentRow.collection, DocumentRow.id, DocumentRow.key).where(*_NAMED)
VERSIONS = (
    select(
        DocumentRow.id,
        DocumentRow.content_hash,
        DocumentRow.language,
        DocumentRow.fingerprint,
        ChunkSetRow.chunker_id,
        ChunkSetRow.model_id,
    )
    .outerjoin(ChunkSetRow, ChunkSetRow.document_key == DocumentRow.key)
    .where(_IN_COLLECTION, is_among(DocumentRow.id, "ids", "text"))
)
HAS_FIELD = select(exists().where(AttributeRow.field == bindparam("field")))
HAS_KIND = select(
    exists().where(AttributeRow.field == bindparam("field"), AttributeRow.kind == bindparam("kind"))
)
FIELDS = select(AttributeRow.field).distinct()

# Chunks

_CHUNKS = (
    select(
        *ChunkRow.__table__.columns,
        ChunkSetRow.chunker_id,
        CHUNK_TEXT.label("text"),
    )
    .select_from(ChunkRow)
    .join(DocumentRow, DocumentRow.key == ChunkRow.document_key)
    .outerjoin(ChunkTextRow, TEXT_ROW)
    .join(ChunkSetRow, ChunkSetRow.key == ChunkRow.set_key)
)
_BY_KEY = is_among(ChunkRow.key, "keys", "key")
FINDABLE_KEYS = select(ChunkRow.key).where(_FINDABLE).order_by(ChunkRow.key)
FINDABLE_OF_DOCUMENTS = FINDABLE_KEYS.where(is_among(ChunkRow.document_key, "documents", "key"))
PASSAGES = select_passages().where(_BY_KEY)
CHUNKS = _CHUNKS.where(_BY_KEY)
CHUNKS_OF_DOCUMENT = _CHUNKS.where(
    _IN_COLLECTION, DocumentRow.id == bindparam("document_id")
).order_by(ChunkRow.key)
PARENTS = _CHUNKS.add_columns(DocumentRow.collection, DocumentRow.id.label("document_id")).where(
    *_NAMED, is_among(ChunkRow.id, "parents", "text")
)
STORED_CHUNKS = (
    select(
        DocumentRow.collection,
        DocumentRow.id,
        ChunkSetRow.chunker_id,
        ChunkSetRow.model_id,
        ChunkRow.key,
    )
    .select_from(ChunkRow)
    .join(DocumentRow, DocumentRow.key == ChunkRow.document_key)
    .join(ChunkSetRow, ChunkSetRow.key == ChunkRow.set_key)
    .where(*_NAMED, _FINDABLE)
    .order_by(ChunkRow.document_key, ChunkRow.key)
)
CHUNKS_AT = select(ChunkRow.key, ChunkRow.document_key, ChunkRow.level, ChunkRow.ordinal).where(
    is_among(ChunkRow.document_key, "owners", "key"), is_among(ChunkRow.ordinal, "ordinals", "key")
)
_SAME_LEVEL = (
    ChunkRow.document_key == bindparam("owner"),
    ChunkRow.level == bindparam("level"),
)
ACROSS_PAGES = select(
    select(func.max(ChunkRow.ordinal))
    .where(*_SAME_LEVEL, ChunkRow.ordinal < bindparam("ordinal"))
    .where(ChunkRow.page_last < bindparam("first_page"))
    .scalar_subquery(),
    select(func.min(ChunkRow.ordinal))
    .where(*_SAME_LEVEL, ChunkRow.ordinal > bindparam("ordinal"))
    .where(ChunkRow.page_first > bindparam("last_page"))
    .scalar_subquery(),
)
VECTORS = select(EmbeddingRow.chunk_key, EmbeddingRow.vector).where(
    is_among(EmbeddingRow.chunk_key, "keys", "key")
)

# The change log

HEAD = select(HistoryRow.change, HistoryRow.token).order_by(HistoryRow.state.desc()).limit(1)
TOKEN_AT = (
    select(HistoryRow.token)
    .where(HistoryRow.change >= bindparam("number"))
    .order_by(HistoryRow.change, HistoryRow.state)
    .limit(1)
)
NTH_CHUNK = (
    select(ChunkRow.key)
    .where(ChunkRow.key > bindparam("start"), ChunkRow.key <= bindparam("until"))
    .order_by(ChunkRow.key)
    .offset(bindparam("skipped", type_=Integer))
    .limit(1)
)
_SEPARATOR: Any = literal_column(f"'{SEPARATOR}'")
# As one string: a third of the base may go at once, and as rows of their own these keys would take
# ten times as long, each waiting for the interpreter where other threads are busy.
REMOVED = select(func.aggregate_strings(cast(RemovalRow.chunk_key, Text), _SEPARATOR)).where(
    RemovalRow.sequence > bindparam("start"), RemovalRow.sequence <= bindparam("stop")
)
UPDATED = (
    select(ChunkRow.key)
    .join(MetadataUpdateRow, MetadataUpdateRow.document_key == ChunkRow.document_key)
    .where(
        MetadataUpdateRow.sequence > bindparam("start"),
        MetadataUpdateRow.sequence <= bindparam("stop"),
        _FINDABLE,
    )
    .distinct()
)
_TEXTS = (
    select(
        ChunkRow.key,
        ChunkRow.document_key,
        DocumentRow.title,
        ChunkRow.heading_path,
        CHUNK_TEXT.label("text"),
        DocumentRow.collection,
        DocumentRow.language,
    )
    .select_from(ChunkRow)
    .join(DocumentRow, DocumentRow.key == ChunkRow.document_key)
    .outerjoin(ChunkTextRow, TEXT_ROW)
    .where(_FINDABLE)
)
ADDED_TEXTS = _TEXTS.where(ChunkRow.key > bindparam("start"), ChunkRow.key <= bindparam("stop"))
TEXTS_OF = _TEXTS.where(_BY_KEY)
_VECTORS = select(EmbeddingRow.chunk_key, EmbeddingRow.vector).where(
    EmbeddingRow.model_id == bindparam("model_id")
)
ADDED_VECTORS = _VECTORS.where(
    EmbeddingRow.chunk_key > bindparam("start"), EmbeddingRow.chunk_key <= bindparam("stop")
)
VECTORS_OF = _VECTORS.where(is_among(EmbeddingRow.chunk_key, "keys", "key")).order_by(
    EmbeddingRow.chunk_key
)

# The fields of chunks as filters see them

CHUNK_PAGES = select(
    ChunkRow.key, ChunkRow.document_key, ChunkRow.page_first, ChunkRow.page_last
).where(_BY_KEY, _FINDABLE)
OWN_FIELDS = select(
    DocumentRow.key,
    *(
        getattr(DocumentRow, "id" if name == "document_id" else name).label(name)
        for name in RESERVED
        if name != "page"
    ),
).where(is_among(DocumentRow.key, "keys", "key"))
ATTRIBUTES = select(
    AttributeRow.document_key,
    AttributeRow.field,
    AttributeRow.kind,
    AttributeRow.text_value,
    AttributeRow.number_value,
).where(is_among(AttributeRow.document_key, "keys", "key"), AttributeRow.kind != "group")
