"""Full text in tables: BM25 over postings, a segment per write."""

from __future__ import annotations

import logging
import math
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import islice, pairwise
from operator import and_, or_
from typing import Literal
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, delete, func, insert, select, text, tuple_

from lagotto.documents import in_context, storable
from lagotto.indexes.base import (
    ChunkKeys,
    ChunkText,
    FilterKeys,
    Hits,
    LogPosition,
    Mask,
    TextSnapshot,
    TextStatistics,
    are_among,
    text_rules,
    top_k,
)
from lagotto.indexes.bm25 import idf, term_weight
from lagotto.indexes.text_query import (
    Either,
    Every,
    Likeness,
    Match,
    Phrase,
    Prefix,
    Term,
    TextQuery,
    Word,
    holds,
    single_words,
)
from lagotto.stores.base import Entry, LanguageCounts, main_language
from lagotto.stores.postgres.database import (
    KeysParameter,
    ReadTransaction,
    copy_encoded,
    integer,
    keys_of,
    may_merge,
)
from lagotto.stores.postgres.native import keep_words
from lagotto.stores.postgres.schema import (
    TEXT_INDEX,
    ChunkTermsRow,
    GoneRow,
    IndexedRow,
    PostingRow,
    SegmentRow,
)
from lagotto.stores.sql.changelog import SqlChangeLog
from lagotto.stores.sql.generations import abandon_next
from lagotto.stores.sql.read import read_config, setting
from lagotto.stores.sql.tables import ChunkRow
from lagotto.stores.sql.write import CURRENT, note_change, put_setting, take_numbers
from lagotto.terms import Vocabulary, index_terms
from lagotto.terms.vocabulary import (
    CANDIDATES,
    LEAST_SIMILARITY,
    deletion_pairs,
)
from lagotto.terms.words import JOINER

RECORD = np.dtype([("key", "<u4"), ("count", "<u2"), ("length", "<u2")])
LARGEST = 2**16 - 1

MOST_POSITIONS = 256
LAST_POSITION = 2**14 - 1
"""The limits of a tsvector: positions per term, and the last position."""

Postings = NDArray[np.void]


@dataclass(frozen=True, slots=True)
class ChunkTerms:
    """The terms of a findable chunk: their number, and the tsvector of their positions."""

    length: int
    positions: bytes


@dataclass(frozen=True, slots=True)
class PostingSegment:
    """The postings of some chunks, which are numbered from 0 until they have keys.

    `texts` are the indexed texts with their languages.
    """

    texts: Sequence[tuple[str, str | None]]
    chunks: Sequence[ChunkTerms]
    terms: Sequence[str]
    bounds: NDArray[np.int64]
    postings: Postings

    def rows(self, keys: ChunkKeys) -> Iterator[tuple[str, bytes]]:
        """Each term with its postings, for chunks with these keys."""
        postings = self.postings.copy()
        postings["key"] = keys[postings["key"]]
        for term, (start, stop) in zip(self.terms, pairwise(self.bounds.tolist()), strict=True):
            yield term, postings[start:stop].tobytes()


def make_segment(
    texts: Sequence[tuple[str, str | None]], languages: Sequence[str | None]
) -> PostingSegment:
    """The segment of chunks, given by their texts with their own languages.

    `languages` are those to index them in: the main one of a collection stands in for unknown ones.
    """
    numbers: dict[str, int] = {}
    found: list[tuple[int, int, int, int]] = []
    chunks = []
    for number, ((content, _), language) in enumerate(zip(texts, languages, strict=True)):
        terms = index_terms(content, language)
        length = min(len(terms), LARGEST)
        chunks.append(ChunkTerms(len(terms), tsvector(terms)))
        for term, count in Counter(terms).items():
            position = numbers.setdefault(term, len(numbers))
            found.append((position, number, min(count, LARGEST), length))
    table = np.array(found, np.int64).reshape(-1, 4)
    table = table[np.argsort(table[:, 0], kind="stable")]
    postings = np.empty(len(table), RECORD)
    for column, name in enumerate(("key", "count", "length"), 1):
        postings[name] = table[:, column]
    bounds = np.searchsorted(table[:, 0], np.arange(len(numbers) + 1))
    return PostingSegment(texts, chunks, list(numbers), bounds, postings)


def entry_segment(entries: Sequence[Entry], counts: LanguageCounts) -> PostingSegment:
    """The segment of the findable chunks, in the order of their keys."""
    findable = [
        (entry.document, chunk)
        for entry in entries
        for chunk in entry.chunks
        if chunk.level != "parent"
    ]
    return make_segment(
        [
            (
                in_context(document.title, chunk.text, headings=chunk.heading_path),
                document.language,
            )
            for document, chunk in findable
        ],
        [
            document.language or main_language(counts, document.collection)
            for document, _ in findable
        ],
    )


def tsvector(terms: Sequence[str]) -> bytes:
    """The terms with their positions, in the binary format of a tsvector."""
    positions: dict[str, list[int]] = {}
    for position, term in enumerate(terms[:LAST_POSITION], 1):
        positions.setdefault(term, []).append(position)
    lexemes = [_lexeme(term, some[:MOST_POSITIONS]) for term, some in positions.items()]
    return b"".join([struct.pack(">i", len(lexemes)), *lexemes])


def _lexeme(term: str, positions: Sequence[int]) -> bytes:
    return term.encode() + struct.pack(f">xH{len(positions)}H", len(positions), *positions)


def phrase(terms: Sequence[str]) -> str:
    """A tsquery for adjacent terms."""
    return " <-> ".join(map(quoted, terms))


def quoted(term: str) -> str:
    """A term, quoted for a tsquery."""
    doubled = term.replace("\\", "\\\\").replace("'", "''")
    return f"'{doubled}'"


def live(records: bytes, gone: ChunkKeys) -> Postings:
    """The postings in one or several joined rows, without those of removed chunks."""
    postings = np.frombuffer(records, RECORD)
    if not len(gone):
        return postings
    return postings[~are_among(postings["key"], gone)]


def joined(rows: Sequence[tuple[str, bytes]]) -> Mapping[str, bytes]:
    """The rows of each term, joined."""
    found: dict[str, list[bytes]] = {}
    for term, records in rows:
        found.setdefault(term, []).append(records)
    return {term: b"".join(some) for term, some in found.items()}


_NEW_TERMS = text(
    "SELECT new FROM unnest(cast(:terms AS text[])) AS new "
    "WHERE NOT EXISTS (SELECT 1 FROM term WHERE term.text = new)"
)
_ADD_TERMS = text(
    "INSERT INTO term (text, shapes) SELECT new, cast(shapes AS bigint[]) "
    "FROM unnest(cast(:terms AS text[]), cast(:shapes AS text[])) AS added (new, shapes) "
    "ON CONFLICT DO NOTHING"
)
_FORGET = text("""
WITH theirs AS (
    SELECT key, generation, length FROM chunk LEFT JOIN chunk_terms ON chunk_key = key
    WHERE level != 'parent' AND document_key = ANY(cast(:documents AS bigint[]))
), noted AS (
    INSERT INTO gone (chunk_key, generation) SELECT key, generation FROM theirs
    WHERE length IS NOT NULL
)
SELECT generation, count(*), coalesce(sum(length), 0) FROM theirs GROUP BY generation
""")
_COUNT = text(
    "UPDATE indexed SET chunks = chunks + :chunks, terms = terms + :terms "
    "WHERE generation = :generation"
)


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of indexed chunks, and of their terms."""

    chunks: int = 0
    terms: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.chunks + other.chunks, self.terms + other.terms)

    def __neg__(self) -> Counts:
        return Counts(-self.chunks, -self.terms)


Changes = Mapping[int, Counts]
"""What was added to generations, less what was removed."""


def without(gone: Changes, added: Changes) -> Changes:
    """Both changes, of which one took away what it counts."""
    nothing = Counts()
    generations = sorted({*gone, *added})
    return {one: added.get(one, nothing) + -gone.get(one, nothing) for one in generations}


def findable_keys(entries: Sequence[Entry], keys: range) -> ChunkKeys:
    """The keys of the findable chunks, in order."""
    levels = (chunk.level for entry in entries for chunk in entry.chunks)
    pairs = zip(keys, levels, strict=True)
    return np.array([key for key, level in pairs if level != "parent"], np.int64)


def add_segment(
    connection: Connection,
    number: int,
    segment: PostingSegment,
    keys: ChunkKeys,
    *,
    generation: int,
) -> Counts:
    """Index the chunks of a segment under their keys; return what was added."""
    if not len(keys):
        return Counts()
    row = {"number": number, "chunks": len(keys), "generation": generation}
    connection.execute(insert(SegmentRow).values(row))
    positions = (
        (integer(key), integer(chunk.length), chunk.positions)
        for key, chunk in zip(keys.tolist(), segment.chunks, strict=True)
    )
    copy_encoded(connection, "chunk_terms", ("chunk_key", "length", "terms"), positions)
    keep_words(connection, keys.tolist(), segment.texts, generation=generation)
    add_postings(connection, number, segment.rows(keys), generation=generation)
    _add_terms(connection, segment.terms)
    return Counts(len(keys), sum(chunk.length for chunk in segment.chunks))


def add_postings(
    connection: Connection, segment: int, rows: Iterable[tuple[str, bytes]], *, generation: int
) -> None:
    """Store the postings of terms in a segment."""
    numbers = (integer(generation), integer(segment))
    encoded = ((term.encode(), *numbers, records) for term, records in rows)
    copy_encoded(connection, "posting", ("term", "generation", "segment", "records"), encoded)


def take_segment_number(connection: Connection) -> int:
    """A number that no segment ever had."""
    return take_numbers(connection, "segment", 1)


def mark_removed(connection: Connection, document_keys: Sequence[int]) -> Changes:
    """List the chunks of documents about to be removed as gone; their counts by generation.

    They are counted whether their words are indexed here or not.
    """
    if not document_keys:
        return {}
    rows = connection.execute(_FORGET, {"documents": list(document_keys)})
    return {generation: Counts(chunks, int(terms)) for generation, chunks, terms in rows}


def record_commit(
    connection: Connection, changes: Changes | None = None, *, generation: int | None = None
) -> None:
    """Record a commit to a generation, the current one for None, and update the statistics.

    Must be the last step of a transaction: from here on writers wait for each other.
    """
    note_change(connection, generation)
    for one, counts in sorted((changes or {}).items()):
        counted = {"chunks": counts.chunks, "terms": counts.terms, "generation": one}
        connection.execute(_COUNT, counted)


def _add_terms(connection: Connection, terms: Sequence[str]) -> None:
    """Add new terms, in order, so that no two writers deadlock; no compounds, see Vocabulary."""
    words = [term for term in terms if JOINER not in term]
    new = sorted(connection.scalars(_NEW_TERMS, {"terms": words}))
    if not new:
        return
    hashes, owners = deletion_pairs(new)
    order = np.argsort(owners, kind="stable")
    bounds = np.searchsorted(owners[order], np.arange(1, len(new)))
    shapes = np.split(hashes[order].view(np.int64), bounds)
    literals = [f"{{{','.join(map(str, some.tolist()))}}}" for some in shapes]
    connection.execute(_ADD_TERMS, {"terms": new, "shapes": literals})


_OF_TERMS = """
SELECT term, records FROM posting WHERE term = ANY(%(terms)s) AND generation = %(generation)s
ORDER BY segment
"""
_OF_PREFIX = """
SELECT term, records FROM posting
WHERE term >= %(start)s AND term < %(stop)s AND generation = %(generation)s ORDER BY segment
"""
_HOLDING = """
SELECT string_agg(int8send(chunk_key), '') FROM chunk_terms
WHERE chunk_key = ANY(%(keys)s) AND terms @@ cast(%(phrase)s AS tsquery)
"""
_ALL = """
SELECT string_agg(int8send(chunk_key), '') FROM chunk_terms JOIN chunk ON key = chunk_key
WHERE generation = %(generation)s
"""

MOST_SCORED = 16
"""Queries whose scores a view keeps for later questions: five bytes for every chunk of the base."""

PROPOSED = 2 * CANDIDATES
"""Terms that pg_trgm proposes: more than the rules use, as some may have no chunks left."""

_NEAREST = f"ORDER BY similarity(text, %(word)s) DESC, text LIMIT {PROPOSED}"
_SIMILAR = f"SELECT text FROM term WHERE %(word)s <%% text {_NEAREST}"
_MEANT = f"""
(SELECT text FROM term WHERE text %% %(word)s {_NEAREST})
UNION
SELECT text FROM term WHERE shapes && %(shapes)s
"""
_THRESHOLDS = """
SELECT set_config('pg_trgm.similarity_threshold', %(threshold)s, true),
       set_config('pg_trgm.word_similarity_threshold', %(threshold)s, true)
"""

BEHIND_ALL = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class Statistics:
    """The statistics of a generation that BM25 needs, and its removed chunks."""

    generation: int
    last_key: int
    chunks: int
    terms: int
    gone: ChunkKeys


@dataclass(slots=True)
class PostingsText(TextSnapshot):
    """A TextSnapshot over postings in tables; postings are read once per view."""

    reader: ReadTransaction
    known: Statistics
    position: LogPosition
    _postings: dict[str, Postings] = field(default_factory=dict)
    _scored: dict[TextQuery, tuple[NDArray[np.float32], Mask]] = field(default_factory=dict)
    _everything: Mask | None = None

    async def search(self, query: TextQuery, *, k: int, allowed: FilterKeys | None) -> Hits:
        scores, found = await self._score(query)
        keys = np.flatnonzero(found if allowed is None else found & allowed.mask(len(found)))
        return top_k(keys, scores[keys], k)

    async def scores(self, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        scores, _ = await self._score(query)
        return scores[keys]

    async def frequencies(self, words: Sequence[Word]) -> list[int]:
        await self._read(term for word in words for term in word.terms)
        return [self._frequency(word.terms) for word in words]

    def _frequency(self, terms: Sequence[str]) -> int:
        """How many chunks hold one of the terms."""
        keys = [self._postings[storable(term)]["key"] for term in dict.fromkeys(terms)]
        return len(keys[0]) if len(keys) == 1 else len(np.unique(np.concatenate([[], *keys])))

    async def matching(self, match: Match, among: ChunkKeys) -> ChunkKeys:
        return among[(await self.holding(match))[among]]

    async def statistics(self) -> TextStatistics:
        known = self.known
        return TextStatistics(known.chunks, known.terms / known.chunks if known.chunks else None)

    async def alike(self, words: Sequence[str], wanted: Likeness) -> list[tuple[Term, ...]]:
        return [await self._alike(word, wanted) for word in words]

    async def _alike(self, word: str, wanted: Likeness) -> tuple[Term, ...]:
        """The terms like a word, of those that the server proposes and some chunk contains."""
        proposing, asked = _SIMILAR, dict[str, object](word=storable(word))
        if wanted.threshold is None:
            proposing = _MEANT
            asked["shapes"] = deletion_pairs([word])[0].view(np.int64).tolist()
        threshold = LEAST_SIMILARITY if wanted.threshold is None else wanted.threshold
        await self.reader.rows(_THRESHOLDS, {"threshold": str(threshold)})
        terms = [term for (term,) in await self.reader.rows(proposing, asked)]
        held = zip(terms, await self.frequencies(single_words(terms)), strict=True)
        return wanted.find(Vocabulary([term for term, having in held if having]), word)

    async def everything(self) -> Mask:
        """All findable chunks."""
        if self._everything is None:
            ((keys,),) = await self.reader.rows(_ALL, self._asked())
            self._everything = self.mask(keys_of(keys))
        return self._everything

    async def holding(self, match: Match) -> Mask:
        """The chunks for which `match` holds; undefined for keys without a chunk."""
        nothing = self.mask()
        if isinstance(match, Word):
            await self._read(match.terms)
            return self._any_of(match.terms)
        if isinstance(match, Prefix):
            return await self._beginning_with(storable(match.start))
        if isinstance(match, Phrase):
            return reduce(or_, [await self._in_order(terms) for terms in match.variants], nothing)
        if isinstance(match, Either):
            return reduce(or_, [await self.holding(part) for part in match.parts], nothing)
        if isinstance(match, Every):
            return reduce(and_, [await self.holding(part) for part in match.parts], ~nothing)
        return ~await self.holding(match.part)

    def mask(self, keys: ChunkKeys | None = None) -> Mask:
        """A mask of these keys."""
        mask = np.zeros(self.known.last_key + 1, np.bool_)
        if keys is not None:
            mask[keys] = True
        return mask

    async def _score(self, query: TextQuery) -> tuple[NDArray[np.float32], Mask]:
        """Scores by key, and which keys are found."""
        if query not in self._scored:
            terms = [term for word in query.words for term in word]
            await self._read([term.text for term in terms])
            total = np.zeros(self.known.last_key + 1)
            for word in query.words:
                self._add(total, word)
            found = self._any_of([term.text for term in terms])
            if query.where is not None:
                found = await self.holding(query.where)
                if holds(query.where, ()):  # also for keys without a chunk
                    found &= await self.everything()
                total[~found] = 0.0
            while len(self._scored) >= MOST_SCORED:
                del self._scored[next(iter(self._scored))]
            self._scored[query] = total.astype(np.float32), found
        return self._scored[query]

    def _add(self, total: NDArray[np.float64], word: Sequence[Term]) -> None:
        """Add the score of a word: that of its best alternative."""
        having = self._frequency([term.text for term in word])
        whole = idf(having, count=self.known.chunks)
        if len(word) == 1:
            keys, scores = self._term_scores(word[0], whole)
            total[keys] += scores
            return
        best_of = np.zeros(len(total))
        for term in word:
            keys, scores = self._term_scores(term, whole)
            best_of[keys] = np.maximum(best_of[keys], scores)
        total += best_of

    def _term_scores(self, term: Term, idf: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        postings = self._postings[storable(term.text)]
        known = self.known
        mean = known.terms / known.chunks if known.chunks else 1.0
        counts, lengths = (postings[name].astype(np.float64) for name in ("count", "length"))
        scores = term_weight(counts, lengths, mean=mean or 1.0, idf=term.weight * idf)
        return postings["key"], scores

    def _any_of(self, terms: Iterable[str]) -> Mask:
        mask = self.mask()
        for term in terms:
            mask[self._postings[storable(term)]["key"]] = True
        return mask

    async def _read(self, terms: Iterable[str]) -> None:
        """Read the postings of terms that were not read before."""
        unread = {storable(term) for term in terms} - self._postings.keys()
        if unread:
            rows = joined(await self.reader.rows(_OF_TERMS, self._asked(terms=sorted(unread))))
            for term in unread:
                self._postings[term] = live(rows.get(term, b""), self.known.gone)

    def _asked(self, **values: object) -> dict[str, object]:
        return {"generation": self.known.generation, **values}

    async def _beginning_with(self, start: str) -> Mask:
        bounds = self._asked(start=start, stop=start + BEHIND_ALL)
        rows = await self.reader.rows(_OF_PREFIX, bounds)
        records = b"".join(records for _, records in rows)
        return self.mask(live(records, self.known.gone)["key"])

    async def _in_order(self, terms: Sequence[str]) -> Mask:
        """The chunks that contain these terms one after the other."""
        await self._read(terms)
        mask = reduce(and_, [self._any_of([term]) for term in terms]) if terms else self.mask()
        if len(terms) < 2 or not mask.any():
            return mask
        asked = {"keys": KeysParameter(np.flatnonzero(mask)), "phrase": phrase(terms)}
        ((keys,),) = await self.reader.rows(_HOLDING, asked)
        return self.mask(keys_of(keys))


AT_ONCE = 8
"""This many segments of about the same size become one."""

FEW_GONE = 1_000
MOST_GONE = 0.2
"""More removed chunks than this, if they are also this share of all, are cleared."""

PAGE = 2_000

_JOIN = text(
    "WITH former AS (DELETE FROM posting WHERE segment = ANY(:segments) RETURNING *) "
    "INSERT INTO posting (term, generation, segment, records) "
    "SELECT term, generation, :number, string_agg(records, ''::bytea) FROM former "
    "GROUP BY term, generation"
)
_TAKE_PAGE = text(
    "WITH page AS (SELECT DISTINCT term FROM posting WHERE term > :last "
    "AND segment = ANY(:segments) ORDER BY term LIMIT :size), "
    "former AS (DELETE FROM posting WHERE term IN (SELECT term FROM page) "
    "AND segment = ANY(:segments) RETURNING *) "
    "SELECT term, string_agg(records, ''::bytea) FROM former GROUP BY term ORDER BY term"
)
_DROP_GONE = text("DELETE FROM gone WHERE chunk_key = ANY(cast(:keys AS bigint[]))")
_DROP_TERMS = text(
    "DELETE FROM term WHERE NOT EXISTS (SELECT 1 FROM posting WHERE posting.term = term.text)"
)

Size = tuple[int, int]
"""A segment's number, and how many chunks it has."""

Step = Literal["join", "clear"]


def due_step(connection: Connection, generation: int | None = None) -> Step | None:
    """The next step that is due in a generation, the current one for None."""
    sizes = _sizes(connection, generation)
    of_generation = GoneRow.generation == (CURRENT if generation is None else generation)
    gone = connection.scalar(select(func.count()).select_from(GoneRow).where(of_generation)) or 0
    if gone > max(FEW_GONE, MOST_GONE * sum(chunks for _, chunks in sizes)):
        return "clear"
    return "join" if due_segments(sizes) else None


def merge(connection: Connection, number: int, generation: int | None = None) -> Step | None:
    """Do the next step, unless another client is merging; return what was done.

    `number` is the number of the new segment. After clearing, call `drop_terms`.
    """
    if generation is None:
        generation = read_config(connection).generation
    step = due_step(connection, generation) if may_merge(connection) else None
    if step == "join":
        _join(connection, number, generation)
    elif step == "clear":
        _clear_away(connection, number, generation)
    return step


def due_segments(sizes: Sequence[Size]) -> list[Size]:
    """The segments to merge: the smallest size of which there are too many."""
    levels: dict[int, list[Size]] = {}
    for number, chunks in sizes:
        levels.setdefault(int(math.log(max(chunks, 1), AT_ONCE)), []).append((number, chunks))
    full = [level for level, members in levels.items() if len(members) >= AT_ONCE]
    return levels[min(full)] if full else []


def drop_terms(connection: Connection) -> None:
    """Drop terms that no chunk contains any more; the caller is the only writer.

    Otherwise a writer could find its term here, and lose it before its postings are committed.
    """
    connection.execute(_DROP_TERMS)


def _sizes(connection: Connection, generation: int | None) -> list[Size]:
    of_generation = SegmentRow.generation == (CURRENT if generation is None else generation)
    rows = connection.execute(select(SegmentRow.number, SegmentRow.chunks).where(of_generation))
    return [(number, chunks) for number, chunks in rows]


def _join(connection: Connection, number: int, generation: int) -> None:
    due = due_segments(_sizes(connection, generation))
    former = [one for one, _ in due]
    connection.execute(_JOIN, {"segments": former, "number": number})
    joined = (number, sum(chunks for _, chunks in due))
    _replace_segments(connection, former, joined, generation)


def _clear_away(connection: Connection, number: int, generation: int) -> None:
    """Rewrite postings without the removed chunks, a page of terms at a time.

    The removed chunks are read first, so that all their postings are in the segments read after.
    Chunks that others remove meanwhile, and segments that they add, stay.
    """
    marked = select(GoneRow.chunk_key).where(GoneRow.generation == generation)
    gone = np.array(connection.scalars(marked).all(), np.int64)
    sizes = _sizes(connection, generation)
    former = [one for one, _ in sizes]
    last = ""
    while page := _take_page(connection, former, behind=last):
        kept = ((term, live(records, gone).tobytes()) for term, records in page)
        add_postings(connection, number, [row for row in kept if row[1]], generation=generation)
        last = page[-1][0]
    cleared = (number, sum(chunks for _, chunks in sizes) - len(gone))
    _replace_segments(connection, former, cleared, generation)
    connection.execute(_DROP_GONE, {"keys": gone.tolist()})
    record_commit(connection, generation=generation)


def _take_page(
    connection: Connection, segments: Sequence[int], *, behind: str
) -> Sequence[tuple[str, bytes]]:
    """Delete and return the next terms with their postings."""
    asked = {"segments": segments, "last": behind, "size": PAGE}
    return [(term, records) for term, records in connection.execute(_TAKE_PAGE, asked)]


def _replace_segments(
    connection: Connection, numbers: Sequence[int], new: Size, generation: int
) -> None:
    connection.execute(delete(SegmentRow).where(SegmentRow.number.in_(numbers)))
    row = {"number": new[0], "chunks": new[1], "generation": generation}
    connection.execute(insert(SegmentRow).values(row))


log = logging.getLogger(__name__)


def is_current(connection: Connection) -> bool:
    """Whether the index was built with the rules of this version."""
    return setting(connection, "text_rules") == text_rules()


def renew(connection: Connection) -> None:
    """Rebuild the index unless it is current; the caller is the only writer.

    What a rebuild has made so far has other terms as well, and is given up.
    """
    if is_current(connection):
        return
    log.warning("the rules for terms have changed; rebuilding the full-text index")
    for table in TEXT_INDEX:
        connection.execute(delete(table))
    abandon_next(connection)
    generation = read_config(connection).generation
    count_from_zero(connection, generation)
    indexed = Counts()
    changes = SqlChangeLog(connection)
    for start, stop in changes.ranges(since=0):
        chunks = sorted(changes.added_texts(start, stop), key=lambda chunk: chunk.key)
        segment = make_segment(
            [(chunk.text, chunk.detected) for chunk in chunks],
            [chunk.language for chunk in chunks],
        )
        keys = np.array([chunk.key for chunk in chunks], np.int64)
        number = take_segment_number(connection)
        indexed += add_segment(connection, number, segment, keys, generation=generation)
    put_setting(connection, "text_rules", text_rules())
    record_commit(connection, {generation: indexed})


def count_from_zero(connection: Connection, generation: int) -> None:
    """Begin the statistics of a generation."""
    connection.execute(insert(IndexedRow).values(generation=generation, chunks=0, terms=0))


ROWS_AT_ONCE = 5_000
"""Rows of postings that are read at once."""

COMPARED = 2_000
"""Chunks whose terms are made again from their texts; of more, some at random."""

SUM_PAGE = 100


@dataclass(frozen=True, slots=True)
class PostingSums:
    """Of each chunk, how many terms its postings count, and a checksum of these terms."""

    keys: ChunkKeys
    terms: NDArray[np.int64]
    checksums: NDArray[np.uint64]

    def add(self, rows: Sequence[tuple[str, int, bytes]]) -> None:
        """Count the postings in some rows; those of chunks that are gone are left out."""
        found = np.frombuffer(b"".join(records for _, _, records in rows), RECORD)
        sizes = [len(records) // RECORD.itemsize for _, _, records in rows]
        hashes = np.repeat(np.array([_hash(term) for term, _, _ in rows], np.uint64), sizes)
        index = np.searchsorted(self.keys, found["key"])
        here = index < len(self.keys)
        here[here] = self.keys[index[here]] == found["key"][here]
        np.add.at(self.terms, index[here], found["count"][here].astype(np.int64))
        np.add.at(self.checksums, index[here], hashes[here] * found["count"][here])


def altered_chunks(connection: Connection) -> int:
    """How many chunks have other postings than their terms.

    Of all chunks the number of terms is compared, of some the terms themselves.
    """
    rows = connection.execute(
        select(ChunkTermsRow.chunk_key, ChunkTermsRow.length)
        .join(ChunkRow, ChunkRow.key == ChunkTermsRow.chunk_key)
        .where(ChunkRow.generation == CURRENT)
        .order_by(ChunkTermsRow.chunk_key)
    ).all()
    table = np.array([tuple(row) for row in rows], np.int64).reshape(-1, 2)
    keys, lengths = table.T
    sums = PostingSums(keys, np.zeros(len(keys), np.int64), np.zeros(len(keys), np.uint64))
    for page in _pages(connection):
        sums.add(page)
    altered = (sums.terms != lengths) & (lengths < LARGEST)  # counts are cut there
    for chunk in _compared(connection, len(keys)):
        index = int(np.searchsorted(keys, chunk.key))
        if index < len(keys) and lengths[index] < LARGEST:
            altered[index] |= _checksum(chunk) != sums.checksums[index]
    return int(altered.sum())


def _pages(connection: Connection) -> Iterator[Sequence[tuple[str, int, bytes]]]:
    name = tuple_(PostingRow.term, PostingRow.segment)
    rows = (
        select(PostingRow.term, PostingRow.segment, PostingRow.records)
        .where(PostingRow.generation == CURRENT)
        .order_by(*name.clauses)
    )
    last: tuple[str, int] = ("", -1)
    while True:
        found = connection.execute(rows.where(name > last).limit(ROWS_AT_ONCE))
        page = [(term, segment, records) for term, segment, records in found]
        if not page:
            return
        yield page
        last = page[-1][:2]


def _compared(connection: Connection, chunks: int) -> Iterator[ChunkText]:
    """Chunks of known language: for others, which one stood in was decided when they came."""
    changes = SqlChangeLog(connection)
    starts = [0]
    if chunks > COMPARED:
        head = changes.head.seq
        some = np.random.default_rng().choice(head, COMPARED // SUM_PAGE, replace=False)
        starts = sorted(some.tolist())
    for start in starts:
        ranges = changes.ranges(since=start, at_once=SUM_PAGE)
        for one in islice(ranges, None if chunks <= COMPARED else 1):
            yield from (chunk for chunk in changes.added_texts(*one) if chunk.detected)


def _checksum(chunk: ChunkText) -> np.uint64:
    counts = Counter(index_terms(chunk.text, chunk.language))
    total = sum(_hash(term) * count for term, count in counts.items())
    return np.uint64(total % 2**64)


def _hash(term: str) -> int:
    return crc32(term.encode())
