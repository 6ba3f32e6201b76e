"""Full text in tables: BM25 over postings, a segment per write."""

from __future__ import annotations

import asyncio
import logging
import math
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import groupby, pairwise
from typing import Literal, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, text

from lagotto.documents import storable
from lagotto.indexes import base, text_query
from lagotto.indexes.base import ChunkKeys, ChunkText, FilterKeys, Hits, LogPosition
from lagotto.indexes.bm25 import ScoredKeys, score_words, term_weight
from lagotto.indexes.text_query import Likeness, Match, Term, TextQuery, Word, single_words
from lagotto.stores.base import Entry, LanguageCounts, main_language
from lagotto.stores.postgres import database
from lagotto.stores.postgres.native import keep_words
from lagotto.stores.postgres.schema import TEXT_INDEX
from lagotto.stores.sql.changelog import SqlChangeLog
from lagotto.stores.sql.generations import abandon_next
from lagotto.stores.sql.read import read_config, setting
from lagotto.stores.sql.statements import CURRENT
from lagotto.stores.sql.write import insert_rows, note_change, put_setting, take_numbers
from lagotto.terms import Vocabulary, index_terms
from lagotto.terms.vocabulary import CANDIDATES, LEAST_SIMILARITY, deletion_pairs
from lagotto.terms.words import JOINER

log = logging.getLogger(__name__)

RECORD = np.dtype([("key", "<u4"), ("count", "<u2"), ("length", "<u2")])
LARGEST = 2**16 - 1

# The limits of a tsvector: positions per term, and the last position.
MOST_POSITIONS, LAST_POSITION = 256, 2**14 - 1

Postings = NDArray[np.void]


@dataclass(frozen=True, slots=True)
class PostingSegment:
    """The postings of some chunks, which are numbered from 0 until they have keys.

    `vectors` are the numbers of their terms with the tsvectors of the positions of these.
    """

    chunks: Sequence[ChunkText]
    vectors: Sequence[tuple[int, bytes]]
    terms: Sequence[str]
    bounds: NDArray[np.int64]
    postings: Postings

    def rows(self, keys: ChunkKeys) -> Iterator[tuple[str, bytes]]:
        """Each term with its postings, for chunks with these keys."""
        postings = self.postings.copy()
        postings["key"] = keys[postings["key"]]
        for term, (start, stop) in zip(self.terms, pairwise(self.bounds.tolist()), strict=True):
            yield term, postings[start:stop].tobytes()


def make_segment(chunks: Sequence[ChunkText]) -> PostingSegment:
    """The segment of chunks, whatever their keys."""
    numbers: dict[str, int] = {}
    records: list[tuple[int, int, int, int]] = []
    vectors = []
    for number, chunk in enumerate(chunks):
        terms = index_terms(chunk.text, chunk.language)
        length = min(len(terms), LARGEST)
        vectors.append((len(terms), tsvector(terms)))
        for term, count in Counter(terms).items():
            position = numbers.setdefault(term, len(numbers))
            records.append((position, number, min(count, LARGEST), length))
    table = np.array(records, np.int64).reshape(-1, 4)
    table = table[np.argsort(table[:, 0], kind="stable")]
    postings = np.empty(len(table), RECORD)
    for column, name in enumerate(("key", "count", "length"), 1):
        postings[name] = table[:, column]
    bounds = np.searchsorted(table[:, 0], np.arange(len(numbers) + 1))
    return PostingSegment(chunks, vectors, list(numbers), bounds, postings)


def entry_segment(entries: Sequence[Entry], counts: LanguageCounts) -> PostingSegment:
    """The segment of the findable chunks, in the order of their keys.

    The main language of a collection stands in for unknown ones.
    """
    chunks = []
    for document, chunk in ((item.document, chunk) for item in entries for chunk in item.chunks):
        if chunk.level != "parent":
            content, detected = chunk.in_context(document.title), document.language
            language = detected or main_language(counts, document.collection)
            chunks.append(ChunkText(0, 0, content, language, detected))
    return make_segment(chunks)


def tsvector(terms: Sequence[str]) -> bytes:
    """The terms with their positions, in the binary format of a tsvector."""
    positions: dict[str, list[int]] = {}
    for position, term in enumerate(terms[:LAST_POSITION], 1):
        positions.setdefault(term, []).append(position)
    lexemes = [struct.pack(">i", len(positions))]
    for term, some in positions.items():
        first = some[:MOST_POSITIONS]
        lexemes.append(term.encode() + struct.pack(f">xH{len(first)}H", len(first), *first))
    return b"".join(lexemes)


def phrase(terms: Sequence[str]) -> str:
    """A tsquery for adjacent terms, each of them quoted."""
    quoted = (term.replace("\\", "\\\\").replace("'", "''") for term in terms)
    return " <-> ".join(f"'{term}'" for term in quoted)


def live(records: bytes, gone: ChunkKeys) -> Postings:
    """The postings in one or several joined rows, without those of removed chunks."""
    postings = np.frombuffer(records, RECORD)
    return postings[~base.are_among(postings["key"], gone)] if len(gone) else postings


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
_COUNT_ALL = text(
    "INSERT INTO indexed (generation, chunks, terms) "
    "SELECT :generation, count(*), coalesce(sum(length), 0) FROM chunk_terms"
)


class Gain(NamedTuple):
    """How many chunks and terms of chunks a generation gains, below 0 what it loses."""

    generation: int
    chunks: int
    terms: int


def add_segment(
    connection: Connection,
    segment: PostingSegment | None,
    keys: Sequence[int],
    generation: int,
    number: int | None = None,
) -> Gain:
    """Index the chunks that have these keys.

    `segment` is None if words are indexed elsewhere; `number` is the one reserved for it, if any.
    """
    if segment is None or not keys:
        return Gain(generation, len(keys), 0)
    number = number or take_numbers(connection, "segment", 1)
    row = {"number": number, "chunks": len(keys), "generation": generation}
    insert_rows(connection, "segment", [row])
    columns = {"chunk_key": "int8", "length": "int8", "terms": "bytea"}
    rows = ((key, *vector) for key, vector in zip(keys, segment.vectors, strict=True))
    database.copy_values(connection, "chunk_terms", columns, rows)
    keep_words(connection, keys, segment.chunks, generation)
    _add_postings(connection, number, segment.rows(np.array(keys, np.int64)), generation)
    _add_terms(connection, segment.terms)
    return Gain(generation, len(keys), sum(length for length, _ in segment.vectors))


def _add_postings(
    connection: Connection, segment: int, rows: Iterable[tuple[str, bytes]], generation: int
) -> None:
    columns = {"term": "text", "generation": "int8", "segment": "int8", "records": "bytea"}
    values = ((term, generation, segment, records) for term, records in rows)
    database.copy_values(connection, "posting", columns, values)


def mark_removed(connection: Connection, document_keys: Sequence[int]) -> list[Gain]:
    """List the chunks of documents about to be removed as gone; what generations lose with them.

    They are counted whether their words are indexed here or not.
    """
    if not document_keys:
        return []
    rows = connection.execute(_FORGET, {"documents": list(document_keys)})
    return [Gain(generation, -chunks, -int(terms)) for generation, chunks, terms in rows]


def record_commit(connection: Connection, *gains: Gain, generation: int | None = None) -> None:
    """Record a commit to a generation, the current one for None, and update the statistics.

    Must be the last step of a transaction: from here on writers wait for each other.
    """
    note_change(connection, generation)
    for one, own in groupby(sorted(gains), key=lambda gain: gain.generation):
        _, chunks, terms = map(sum, zip(*own, strict=True))
        connection.execute(_COUNT, {"chunks": chunks, "terms": terms, "generation": one})


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
"""Queries whose scores a view keeps for later questions: twelve bytes for every chunk found."""

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


class Statistics(NamedTuple):
    """The statistics of a generation that BM25 needs, and its removed chunks."""

    generation: int
    last_key: int
    chunks: int
    terms: int
    gone: ChunkKeys

    @property
    def mean_length(self) -> float:
        """How many terms a chunk has on average, 0 if there are none."""
        return self.terms / self.chunks if self.chunks else 0.0


@dataclass(slots=True)
class PostingsText(base.TextSnapshot):
    """A TextSnapshot over postings in tables; postings are read once per view."""

    reader: database.ReadTransaction
    known: Statistics
    position: LogPosition
    _postings: dict[str, Postings] = field(default_factory=dict)
    _scored: dict[TextQuery, Hits] = field(default_factory=dict)
    _findable: ChunkKeys | None = None

    async def search(self, query: TextQuery, *, k: int, allowed: FilterKeys | None) -> Hits:
        hits = await self._score(query)
        if allowed is not None:
            hits = hits[allowed.contains(hits.keys)]
        return base.top_k(hits.keys, hits.scores, k)

    async def scores(self, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        return (await self._score(query)).scores_of(keys, ascending=True)

    async def frequencies(self, words: Sequence[Word]) -> list[int]:
        await self._read(term for word in words for term in word.terms)
        return [len(self._holding_any(word.terms)) for word in words]

    async def matching(self, match: Match, among: ChunkKeys | None = None) -> ChunkKeys:
        if isinstance(match, text_query.Every):
            # what holds for a chunk without terms can only narrow what others have found
            for part in sorted(match.parts, key=lambda part: text_query.holds(part, ())):
                among = await self.matching(part, among)
            return await self._everything() if among is None else among
        if isinstance(match, text_query.Either):
            return base.union([await self.matching(part, among) for part in match.parts])
        if isinstance(match, text_query.Without):
            seen = await self._everything() if among is None else among
            return np.setdiff1d(seen, await self.matching(match.part, seen), assume_unique=True)
        keys = await self._holding(match)
        return keys if among is None else np.intersect1d(among, keys, assume_unique=True)

    async def statistics(self) -> base.TextStatistics:
        mean = self.known.mean_length if self.known.chunks else None
        return base.TextStatistics(self.known.chunks, mean)

    async def alike(self, words: Sequence[str], wanted: Likeness) -> list[tuple[Term, ...]]:
        least = LEAST_SIMILARITY if wanted.threshold is None else wanted.threshold
        self.reader.soon(_THRESHOLDS, {"threshold": str(least)})
        return await asyncio.gather(*(self._alike(word, wanted) for word in words))

    async def _alike(self, word: str, wanted: Likeness) -> tuple[Term, ...]:
        """The terms like a word, of those that the server proposes and some chunk contains."""
        proposing, parameters = _SIMILAR, dict[str, object]()
        if wanted.threshold is None:
            proposing = _MEANT
            parameters["shapes"] = deletion_pairs([word])[0].view(np.int64).tolist()
        rows = await self.reader.rows(proposing, {"word": storable(word), **parameters})
        terms = [term for (term,) in rows]
        frequencies = zip(terms, await self.frequencies(single_words(terms)), strict=True)
        return wanted.find(Vocabulary([term for term, having in frequencies if having]), word)

    async def _everything(self) -> ChunkKeys:
        """All findable chunks, ascending."""
        if self._findable is None:
            self._findable = np.sort(await self.reader.keys(_ALL, self._parameters()))
        return self._findable

    async def _holding(self, match: Word | text_query.Prefix | text_query.Phrase) -> ChunkKeys:
        """The chunks that hold words, ascending."""
        if isinstance(match, Word):
            await self._read(match.terms)
            return self._holding_any(match.terms)
        if isinstance(match, text_query.Phrase):
            return base.union([await self._in_order(terms) for terms in match.variants])
        start = storable(match.start)
        parameters = self._parameters(start=start, stop=start + BEHIND_ALL)
        rows = await self.reader.rows(_OF_PREFIX, parameters)
        return base.union([live(b"".join(records for _, records in rows), self.known.gone)["key"]])

    async def _score(self, query: TextQuery) -> Hits:
        """The chunks that are found, by ascending keys."""
        if query not in self._scored:
            await self._read(term.text for word in query.words for term in word)
            hits = score_words(query.words, self._term, count=self.known.chunks)
            if query.where is not None:
                keys = await self.matching(query.where)
                hits = Hits(keys, hits.scores_of(keys, ascending=True))
            while len(self._scored) >= MOST_SCORED:
                del self._scored[next(iter(self._scored))]
            self._scored[query] = hits
        return self._scored[query]

    def _term(self, term: Term) -> ScoredKeys:
        postings = self._postings[storable(term.text)]
        counts, lengths = (postings[name].astype(np.float64) for name in ("count", "length"))
        mean = self.known.mean_length or 1.0
        return postings["key"], term_weight(counts, lengths, mean=mean, idf=term.weight)

    def _holding_any(self, terms: Iterable[str]) -> ChunkKeys:
        """The chunks that hold one of some terms, ascending."""
        lists = [self._postings[storable(term)]["key"] for term in dict.fromkeys(terms)]
        return lists[0].astype(np.int64) if len(lists) == 1 else base.union(lists)

    async def _read(self, terms: Iterable[str]) -> None:
        """Read the postings of terms that were not read before."""
        unread = {storable(term) for term in terms} - self._postings.keys()
        if unread:
            parts = defaultdict[str, list[bytes]](list)
            parameters = self._parameters(terms=sorted(unread))
            for term, records in await self.reader.rows(_OF_TERMS, parameters):
                parts[term].append(records)
            for term in unread:
                postings = live(b"".join(parts[term]), self.known.gone)
                # those of a segment ascend, but not all segments are in the order of their keys
                self._postings[term] = postings[np.argsort(postings["key"], kind="stable")]

    def _parameters(self, **values: object) -> dict[str, object]:
        return {"generation": self.known.generation, **values}

    async def _in_order(self, terms: Sequence[str]) -> ChunkKeys:
        await self._read(terms)
        lists = [self._holding_any([term]) for term in terms] or [base.union([])]
        keys = reduce(partial(np.intersect1d, assume_unique=True), lists)
        if len(terms) < 2 or not len(keys):
            return keys
        parameters = {"keys": database.KeysParameter(keys), "phrase": phrase(terms)}
        return np.sort(await self.reader.keys(_HOLDING, parameters))


AT_ONCE = 8  # this many segments of about the same size become one
# More removed chunks than this, if they are also this share of all, are cleared.
FEW_GONE, MOST_GONE = 1_000, 0.2
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
_SIZES = text("SELECT number, chunks FROM segment WHERE generation = :generation")
_GONE = text("SELECT chunk_key FROM gone WHERE generation = :generation")
_COUNT_GONE = text("SELECT count(*) FROM gone WHERE generation = :generation")
_DROP_SEGMENTS = text("DELETE FROM segment WHERE number = ANY(:segments)")
_DROP_GONE = text("DELETE FROM gone WHERE chunk_key = ANY(cast(:keys AS bigint[]))")
_DROP_TERMS = text(
    "DELETE FROM term WHERE NOT EXISTS (SELECT 1 FROM posting WHERE posting.term = term.text)"
)

Size = tuple[int, int]
"""A segment's number, and how many chunks it has."""

Step = Literal["join", "clear"]


def due_step(connection: Connection, generation: int | None = None) -> Step | None:
    """The next step that is due in a generation, the current one for None."""
    if generation is None:
        generation = read_config(connection).generation
    sizes = _sizes(connection, generation)
    gone = connection.scalar(_COUNT_GONE, {"generation": generation}) or 0
    if gone > max(FEW_GONE, MOST_GONE * sum(chunks for _, chunks in sizes)):
        return "clear"
    return "join" if due_segments(sizes) else None


def merge(connection: Connection, number: int, generation: int | None = None) -> Step | None:
    """Do the next step, unless another client is merging; return what was done.

    `number` is the number of the new segment. After clearing, call `drop_terms`.
    """
    if generation is None:
        generation = read_config(connection).generation
    allowed = connection.scalar(text(database.try_lock(database.MERGER)))
    step = due_step(connection, generation) if allowed else None
    if step == "join":
        due = due_segments(_sizes(connection, generation))
        connection.execute(_JOIN, {"segments": [one for one, _ in due], "number": number})
        _replace_segments(connection, due, number, generation)
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


def _sizes(connection: Connection, generation: int) -> list[Size]:
    rows = connection.execute(_SIZES, {"generation": generation})
    return [(number, chunks) for number, chunks in rows]


def _clear_away(connection: Connection, number: int, generation: int) -> None:
    """Rewrite postings without the removed chunks, a page of terms at a time.

    The removed chunks are read first, so that all their postings are in the segments read after.
    Chunks that others remove meanwhile, and segments that they add, stay.
    """
    gone = np.array(connection.scalars(_GONE, {"generation": generation}).all(), np.int64)
    sizes = _sizes(connection, generation)
    parameters = {"segments": [one for one, _ in sizes], "last": "", "size": PAGE}
    while page := connection.execute(_TAKE_PAGE, parameters).all():
        rows = ((term, live(records, gone).tobytes()) for term, records in page)
        _add_postings(connection, number, [row for row in rows if row[1]], generation)
        parameters["last"] = page[-1][0]
    _replace_segments(connection, sizes, number, generation, less=len(gone))
    connection.execute(_DROP_GONE, {"keys": gone.tolist()})
    record_commit(connection, generation=generation)


def _replace_segments(
    connection: Connection, former: Sequence[Size], number: int, generation: int, *, less: int = 0
) -> None:
    """List a segment, with `less` chunks, in place of those that it was made of."""
    connection.execute(_DROP_SEGMENTS, {"segments": [one for one, _ in former]})
    chunks = sum(chunks for _, chunks in former) - less
    row = {"number": number, "chunks": chunks, "generation": generation}
    insert_rows(connection, "segment", [row])


def is_current(connection: Connection) -> bool:
    """Whether the index was built with the rules of this version."""
    return setting(connection, "text_rules") == base.text_rules()


def renew(connection: Connection) -> None:
    """Rebuild the index unless it is current; the caller is the only writer.

    What a rebuild has made so far has other terms as well, and is given up.
    """
    if is_current(connection):
        return
    log.warning("the rules for terms have changed; rebuilding the full-text index")
    for table in TEXT_INDEX:
        connection.execute(text(f"DELETE FROM {table}"))
    abandon_next(connection)
    generation = read_config(connection).generation
    changes = SqlChangeLog(connection)
    for start, stop in changes.ranges(since=0):
        chunks = sorted(changes.added_texts(start, stop), key=lambda chunk: chunk.key)
        add_segment(connection, make_segment(chunks), [chunk.key for chunk in chunks], generation)
    connection.execute(_COUNT_ALL, {"generation": generation})
    put_setting(connection, "text_rules", base.text_rules())
    record_commit(connection)


ROWS_AT_ONCE = 5_000  # rows of postings that are read at once
COMPARED = 2_000  # chunks whose terms are made again from their texts; of more, some at random
SUM_PAGE = 100

_LENGTHS = text(
    "SELECT chunk_key, length FROM chunk_terms JOIN chunk ON key = chunk_key "
    f"WHERE generation = {CURRENT} ORDER BY chunk_key"
)
_PAGE = text(
    "SELECT term, segment, records FROM posting "
    f"WHERE generation = {CURRENT} AND (term, segment) > (:term, :segment) "
    "ORDER BY term, segment LIMIT :size"
)


def altered_chunks(connection: Connection) -> int:
    """How many chunks have other postings than their terms.

    Of all chunks the number of terms is compared, of some the terms themselves.
    """
    rows = [tuple(row) for row in connection.execute(_LENGTHS)]
    keys, lengths = np.array(rows, np.int64).reshape(-1, 2).T
    counted, checksums = _posting_sums(connection, keys)
    altered = (counted != lengths) & (lengths < LARGEST)  # counts are cut there
    changes = SqlChangeLog(connection)
    for one in base.sampled_ranges(changes, len(keys), most=COMPARED, at_once=SUM_PAGE):
        for chunk in changes.added_texts(*one):
            index = int(np.searchsorted(keys, chunk.key))
            # of unknown language: which one stood in was decided when the chunk came
            if chunk.detected and index < len(keys) and lengths[index] < LARGEST:
                counts = Counter(index_terms(chunk.text, chunk.language))
                total = sum(_hash(term) * count for term, count in counts.items())
                altered[index] |= np.uint64(total % 2**64) != checksums[index]
    return int(altered.sum())


def _posting_sums(
    connection: Connection, keys: ChunkKeys
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Of each chunk, how many terms its postings count, and a checksum of these terms."""
    counted, checksums = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.uint64)
    parameters = {"term": "", "segment": -1, "size": ROWS_AT_ONCE}
    while page := connection.execute(_PAGE, parameters).all():
        parameters |= {"term": page[-1][0], "segment": page[-1][1]}
        postings = np.frombuffer(b"".join(records for *_, records in page), RECORD)
        sizes = [len(records) // RECORD.itemsize for *_, records in page]
        hashes = np.repeat(np.array([_hash(term) for term, *_ in page], np.uint64), sizes)
        here = base.are_among(postings["key"], keys)  # others are of chunks that are gone
        index, counts = np.searchsorted(keys, postings["key"][here]), postings["count"][here]
        np.add.at(counted, index, counts.astype(np.int64))
        np.add.at(checksums, index, hashes[here] * counts)
    return counted, checksums


def _hash(term: str) -> int:
    return crc32(term.encode())
