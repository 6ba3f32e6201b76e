"""What the fuzzer feeds: random and mutated inputs, and what must hold for each.

A target takes a random generator, makes one input and uses it. Errors of the LagottoError tree are
answers; any other exception, and any assertion, is a finding.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import Any, get_args

from fuzz_samples import NOTEBOOK, PARTS, make_zip, samples
from lagotto import Document, KnowledgeBase
from lagotto.context import check_answer, resolve
from lagotto.context.cite import CitationKey
from lagotto.documents import storable
from lagotto.errors import LagottoError
from lagotto.filters import matches, parse_filter
from lagotto.prefs import FtsMode, RetrievalPrefs
from lagotto.readers import READERS, ReadOptions, Source
from lagotto.readers.formats import SUFFIXES
from lagotto.retrieval.query.syntax import parse_query
from lagotto.testing.hash_embedder import HashEmbedder
from lagotto.testing.readers import check_structure

Target = Callable[[random.Random], None]

LONG = 2_000
"""Bytes of a repeated piece, lest the repetitions of repetitions fill the memory."""
XML_PIECE = re.compile(rb"<[^>]*>|[^<]+")
NUMBER = re.compile(rb"(?<=\")\d+(?=\")")
WORDS = ["truffle", "dog", "and", "or", "not", "SQLITE_BUSY", "E-14", "3.7", "naïve", "собака"]
WORDS += ["東京"]
SIGNS = list(
    "\"'()[]{}<>|&!*:-+~^\\/,.;#@$%=_ \t\n\r\x00\x02\x0b\u200b\u202e\ufeff\ud800é七7aA“”«»…"
)


def some_text(chance: random.Random, most: int = 60) -> str:
    """Words, signs and repetitions in any order."""
    parts = [
        chance.choice(WORDS if chance.random() < 0.5 else SIGNS)
        * (chance.randint(2, 200) if chance.random() < 0.03 else 1)
        for _ in range(chance.randint(0, most))
    ]
    return chance.choice(["", " "]).join(parts)


def some_value(chance: random.Random, depth: int = 0) -> Any:
    """Anything that JSON can hold, and a little more."""
    kind = chance.randrange(9 if depth < 5 else 6)
    match kind:
        case 0:
            return some_text(chance, 4)
        case 1:
            return chance.choice([0, 1, -1, 2**63, -(2**70), 10**400, 0.1, 1e308, float("nan")])
        case 2:
            return chance.choice([None, True, False])
        case 3:
            return chance.randint(-100, 100)
        case 4:
            return chance.choice(["2024-01-31", "title", "rrf", "hybrid", "english", "en", "any"])
        case 5:
            return chance.random()
        case 6:
            return [some_value(chance, depth + 1) for _ in range(chance.randint(0, 4))]
    return {
        chance.choice(FIELDS + OPERATORS): some_value(chance, depth + 1)
        for _ in range(chance.randint(0, 4))
    }


FIELDS = ["title", "page", "created_at", "year", "tags", "a.b", "metadata.title", "", "."]
OPERATORS = [
    "$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$contains", "$exists", "$and",
    "$or", "$not", "$gtt",
]  # fmt: skip


def mutated(data: bytes, chance: random.Random) -> bytes:
    """`data` with bytes changed, cut out, repeated, or put elsewhere."""
    made = bytearray(data[: chance.choice([200, 2_000, 20_000])])
    for _ in range(chance.randint(1, 8)):
        start = chance.randrange(len(made) + 1)
        end = min(len(made), start + chance.choice([1, 2, 8, 64, 512]))
        match chance.randrange(6):
            case 0:
                made[start:end] = chance.randbytes(end - start)
            case 1:
                del made[start:end]
            case 2:
                made[start:start] = made[start:end] * chance.choice([1, 2, 50])
            case 3:
                made[start:end] = some_text(chance, 6).encode(errors="surrogatepass")
            case 4:
                made[start:end] = chance.choice(
                    [b"\0" * 9, b"\xff\xfe", b"<!--", b"[" * 99, b"{" * 99]
                )
            case _:
                del made[chance.randrange(len(made) + 1) :]
    return bytes(made)


def read_mutated(chance: random.Random, *, name: str) -> None:
    """A reader gives documents with right spans, or a ReadError."""
    if name in PARTS and chance.random() < 0.7:
        data = make_zip(mutated_parts(PARTS[name], chance))
    elif name == "notebook" and chance.random() < 0.7:
        data = json.dumps(_other_json(NOTEBOOK, chance)).encode()
    else:
        data = mutated(chance.choice(samples()[name]), chance)
    source = Source(name=f"x{min(SUFFIXES[name])}", data=data)
    for result in READERS.get(name)().read(source, options=ReadOptions(max_bytes=5_000_000)):
        if isinstance(result, Document):
            check_structure(result)
            result.model_dump_json()


def mutated_parts(parts: dict[str, str], chance: random.Random) -> dict[str, bytes | str]:
    """The parts of an archive, most of them as they were: a mutated archive is hardly ever read."""
    made: dict[str, bytes | str] = {**parts}
    for part in chance.sample(sorted(made), chance.choice([1, 1, 2])):
        if chance.random() < 0.1:
            del made[part]
        elif chance.random() < 0.7:
            made[part] = _other_xml(parts[part].encode(), chance)
        else:
            made[part] = mutated(parts[part].encode(), chance)
    return made


def _other_json(value: Any, chance: random.Random) -> Any:
    """A value of the same shape, some of its parts replaced by anything."""
    if chance.random() < 0.08:
        return some_value(chance)
    if isinstance(value, dict):
        return {key: _other_json(item, chance) for key, item in value.items()}
    if isinstance(value, list):
        return [_other_json(item, chance) for item in value]
    return some_text(chance) if chance.random() < 0.3 else value


def _other_xml(data: bytes, chance: random.Random) -> bytes:
    """XML that is still well formed: elements repeated, nested, renamed; numbers changed."""
    pieces = XML_PIECE.findall(data)
    for _ in range(chance.randint(1, 6)):
        index = chance.randrange(len(pieces))
        piece = pieces[index]
        if piece.endswith(b"/>") or not piece.startswith(b"<"):
            pieces[index] = piece[:LONG] * chance.choice([0, 2, 300])
        else:
            number = str(chance.choice([-1, 0, 7, 99_999_999, 10**30])).encode()
            pieces[index] = NUMBER.sub(number, piece)
    return b"".join(pieces)


def parse_and_search(chance: random.Random) -> None:
    """Any query is answered, or is a QueryError; scores are in order and in [0, 1]."""
    query = some_text(chance)
    mode: FtsMode = chance.choice(get_args(FtsMode))
    parse_query(query, mode, chance.sample(["en", "de", "ru", None, "ja"], chance.randint(1, 3)))
    if chance.random() < 0.2:
        hits = base().retrieve(query, fts={"mode": mode}, top_k=chance.choice([1, 5, 1000]))
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)


def filter_anything(chance: random.Random) -> None:
    """A filter is refused, or means the same after a round trip through JSON."""
    given = some_value(chance) if chance.random() < 0.3 else some_filter(chance)
    parsed = parse_filter(json.dumps(given) if chance.random() < 0.3 else given)
    again = parse_filter(parsed.to_json())
    assert again == parsed
    for document in documents():
        assert matches(parsed, document) == matches(again, document)


def some_filter(chance: random.Random, depth: int = 0) -> dict[str, Any]:
    """A filter that is mostly well formed."""
    if depth < 4 and chance.random() < 0.4:
        junction = chance.choice(["$and", "$or"])
        parts = [some_filter(chance, depth + 1) for _ in range(chance.randint(0, 3))]
        return (
            {junction: parts} if chance.random() < 0.8 else {"$not": some_filter(chance, depth + 1)}
        )
    field = chance.choice(["year", "tags", "a.b", "metadata.title", "title", some_text(chance, 2)])
    operator = chance.choice(OPERATORS[:10])
    value: Any = chance.choice([2024, 0.5, "a", "Lagotto", None, True, some_value(chance)])
    if operator in ("$in", "$nin"):
        value = [value, chance.choice([1, "a", None])]
    if operator == "$exists":
        value = chance.random() < 0.5
    return {field: {operator: value}}


def prefer_anything(chance: random.Random) -> None:
    """Settings are refused, or survive a round trip."""
    given = RetrievalPrefs().model_dump(mode="json", exclude={"filters"})
    for _ in range(chance.randint(1, 3)):
        group = given
        name = chance.choice(list(group))
        if isinstance(group[name], dict) and group[name] and chance.random() < 0.9:
            group = group[name]
            name = chance.choice(list(group))
        group[name] = some_value(chance) if chance.random() < 0.4 else _varied(group[name], chance)
    if chance.random() < 0.3:
        given["preset"] = chance.choice(["oasis", "contextpack", "local-rag", "aiblox", "oases"])
    prefs = RetrievalPrefs.from_dict(given)
    assert prefs.replace() == prefs


def _varied(value: Any, chance: random.Random) -> Any:
    """A value much like `value`."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value * chance.choice([0, 0.5, 1, 2, -1, 1e9]) if abs(value) < 1e15 else -value
    return value


def cite_anything(chance: random.Random) -> None:
    """A citation key is refused, or leads to the span that it names."""
    collection, name = (storable(some_text(chance, 3)) or "n" for _ in range(2))
    key = CitationKey(collection, name, 0, chance.randint(0, 99))
    with suppress(LagottoError):
        assert CitationKey.parse(str(key)) == key
    wanted = chance.choice(
        ["default/lagotto#0-9", "default/a#9-1", some_text(chance), str(key)[:40]]
    )
    asyncio.run(resolve(wanted, document_of=_document_of))


def answer_anything(chance: random.Random) -> None:
    """Any answer can be checked; spans lie within it."""
    markers = ["[1]", "[1, 2]", "[1-3]", "[99]", "[", "]", '"', "“", "”", "'", "`", "(", ". ", "\n"]
    parts = [
        chance.choice(markers) if chance.random() < 0.4 else some_text(chance, 3)
        for _ in range(chance.randint(0, 30))
    ]
    answer = "".join(parts)
    checked = check_answer(answer, pack=pack())
    for claim in checked.claims:
        assert answer[claim.start : claim.end] == claim.text


@cache
def documents() -> list[Document]:
    """A few documents for filters and searches."""
    return [
        Document(id="lagotto", title="Lagotto", text="A water dog that finds truffles. " * 9),
        Document(
            id="sqlite", text="SQLITE_BUSY: E-14 at 3.7", metadata={"year": 2024, "tags": ["a"]}
        ),
        Document(id="rus", text="Собака ищет трюфели.", language="ru", metadata={"a": {"b": None}}),
    ]


@cache
def base() -> KnowledgeBase:
    """A base in memory."""
    made = KnowledgeBase(":memory:", embedder=HashEmbedder())
    made.add(*documents())
    return made


@cache
def pack() -> Any:
    """A context pack with several citations."""
    return base().context("truffles dog SQLITE_BUSY", max_tokens=500)


async def _document_of(_: str, document_id: str) -> Document | None:
    return next((item for item in documents() if item.id == document_id), None)


TARGETS: dict[str, tuple[Target, float]] = {
    **{
        f"reader.{name}": (partial(read_mutated, name=name), 0.2 / len(SUFFIXES))
        for name in sorted(SUFFIXES)
    },
    "queries": (parse_and_search, 0.2),
    "filters": (filter_anything, 0.25),
    "prefs": (prefer_anything, 0.1),
    "citations": (cite_anything, 0.1),
    "answers": (answer_anything, 0.15),
}
"""Each target, and its share of the inputs."""
