from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lagotto.documents import Document, Heading, Page, Span
from lagotto.errors import ConfigError
from lagotto.mcp.documents import excerpt
from lagotto.mcp.quotation import LEAST_TOKENS, MOST_TOKENS, on_wire
from lagotto.mcp.tools import TOOLS, Agent, Arguments, Tool
from tests.mcp.asking import ask, base_of, heads_of, own_base, pages, quoted_text, status_of

WORDS = [
    "truffles", "grow", "below", "oak", "and", "hazel", "where", "a", "dog", "finds", "them", "by",
    "their", "smell",
]  # fmt: skip


def long_text(paragraphs: int) -> str:
    return "\n\n".join(
        f"Paragraph {number}. " + " ".join(WORDS[number % 7 :] + WORDS) + "."
        for number in range(paragraphs)
    )


LONG = Document(
    id="long",
    title="A long one",
    text=long_text(200),
    metadata={"topic": "truffles", "year": 2020},
    headings=(
        Heading(start=0, end=9_000, level=1, title="First"),
        Heading(start=4_000, end=9_000, level=2, title="Within"),
    ),
    pages=(Page(number=1, start=0, end=5_000), Page(number=2, start=5_000, end=9_000)),
    source="https://example.org/long",
)
DOG = Document(id="dog", collection="notes", title="Dogs", text="The lagotto is a water dog.")
ONLY_TITLE = Document(id="t", title="Truffle catalogue", text="")


async def test_search_has_the_shape_of_connectors_and_its_ids_resolve() -> None:
    async with base_of(LONG, DOG, ONLY_TITLE) as base:
        found = json.loads(
            await ask(
                base, "search", query="truffle catalogue water dog", top_k=50, max_tokens=9_000
            )
        )
        assert found["shown"] == len(found["results"]) <= found["total"]
        for result in found["results"]:
            assert {"id", "title", "url"} <= result.keys()
            fetched = json.loads(await ask(base, "fetch", id=result["id"], max_tokens=9_000))
            assert fetched["id"] == result["id"]
            assert all(fetched[name] for name in ("id", "title", "text", "url", "metadata"))
            assert "changed" not in fetched["metadata"]
            await own_base(base).resolve(result["id"])
        assert {"https://example.org/long", "lagotto://documents/notes/dog"} <= {
            result["url"] for result in found["results"]
        }
        assert "notes/dog#0-27" in str(found)
        assert any(result["id"].startswith("default/t#0-0~") for result in found["results"])


async def test_search_goes_on_at_the_cursor() -> None:
    async with base_of(LONG, DOG) as base:
        whole = json.loads(await ask(base, "search", query="oak", top_k=50, max_tokens=9_000))
        short = await pages(base, "search", query="oak", top_k=4, max_tokens=700)
        ids = [result["id"] for page in short for result in json.loads(page)["results"]]
        assert len(short) > 3
        assert len(ids) == len(set(ids)) == whole["total"]
        assert ids[: whole["shown"]] == [result["id"] for result in whole["results"]]


async def test_search_in_a_collection_and_by_filter() -> None:
    async with base_of(LONG, DOG) as base:
        found = json.loads(await ask(base, "search", query="dog", collection="notes"))
        assert [result["title"] for result in found["results"]] == ["Dogs"]
        found = json.loads(await ask(base, "search", query="dog", filters={"topic": "truffles"}))
        assert {result["id"].partition("#")[0] for result in found["results"]} == {"default/long"}


@pytest.mark.parametrize(
    ("asked", "least_bad"),
    [
        ({"query": "dog", "filters": {"topic": "x"}}, []),
        ({"query": "dog", "collection": "none"}, []),
        ({"query": "turbine"}, [0.0]),
    ],
)
async def test_nothing_found_is_an_answer(asked: dict[str, Any], least_bad: list[float]) -> None:
    """Nor what nothing speaks for: no word of `turbine` is there, and its cosine is negative."""
    async with base_of(DOG) as base:
        assert [hit.score for hit in await own_base(base).retrieve(**asked)] == least_bad
        found = json.loads(await ask(base, "search", **asked))
        assert (found["results"], found["total"], found["cursor"]) == ([], 0, None)
        assert "nothing relevant" in found["note"]
        answer = await ask(base, "context", **asked)
        assert status_of(answer) == ("hits", 0, 0, None)
        assert "Nothing relevant" in answer


async def test_fetch_shows_what_is_around_the_result_and_goes_on() -> None:
    async with base_of(LONG) as base:
        start = LONG.text.index("Paragraph 150.")
        key = f"default/long#{start}-{start + 40}"
        found = json.loads(await ask(base, "fetch", id=key, max_tokens=1_000))
        assert "Paragraph 149." in found["text"]
        assert "Paragraph 150." in found["text"]
        assert found["metadata"] | {"topic": "truffles", "year": 2020} == found["metadata"]
        parts = await pages(base, "fetch", id="long", max_tokens=2_000)
        assert "".join(json.loads(part)["text"] for part in parts) == LONG.text
        small = json.loads(await ask(base, "fetch", id="default/long", max_tokens=9_000))
        assert small["start"] == 0
        assert small["total"] == len(LONG.text)


@given(st.integers(0, 30_000), st.integers(LEAST_TOKENS, 3_000))
@example(1_523, LEAST_TOKENS)
@example(16_900, LEAST_TOKENS)
@settings(max_examples=15)
async def test_fetch_shows_the_result_however_little_it_may_show(start: int, budget: int) -> None:
    """Also where what is before it has more tokens than characters."""
    text = LONG.text[:15_000] + "犬 😀" * 700 + LONG.text[15_000:]
    start = min(start, len(text) - 10)
    much = {"note": "of the metadata " * 20}
    async with base_of(Document(id="mixed", text=text, metadata=much)) as base:
        key = f"default/mixed#{start}-{start + 9}"
        found = json.loads(await ask(base, "fetch", id=key, max_tokens=budget))
        assert found["start"] <= start < found["start"] + found["shown"]


async def test_fetch_says_that_a_document_has_changed() -> None:
    async with base_of(DOG) as base:
        found = json.loads(await ask(base, "fetch", id="notes/dog#0-10~00000000"))
        assert "has changed" in found["metadata"]["changed"]


async def test_large_metadata_does_not_crowd_out_the_text() -> None:
    much = {f"key {number}": "value " * 40 for number in range(100)}
    async with base_of(Document(id="m", text=long_text(20), metadata=much)) as base:
        found = json.loads(await ask(base, "fetch", id="m", max_tokens=1_500))
        assert found["shown"] > 1_000
        assert 2 < len(found["metadata"]) < 20


async def test_context_is_cited_and_goes_on_with_the_next_hits() -> None:
    async with base_of(LONG, DOG) as base:
        answers = await pages(base, "context", query="oak hazel smell", max_tokens=900)
        assert len(answers) > 1
        keys = [key for answer in answers for key in heads_of(answer)]
        assert len(keys) >= 10
        for key in keys:
            passage = await own_base(base).resolve(key)
            assert passage.text.split()[0] in "".join(answers)
        whole = await ask(base, "context", query="oak hazel smell", max_tokens=9_000)
        assert status_of(whole) == ("hits", 10, 10, None)


async def test_context_counts_the_hits_that_were_asked_for() -> None:
    """Not all that the reranker saw: a cursor leads no further than `top_k`."""
    async with base_of(LONG, DOG, reranker="overlap") as base:
        whole = await ask(base, "context", query="oak", top_k=2, max_tokens=9_000)
        assert status_of(whole) == ("hits", 2, 2, None)
        few = await ask(base, "context", query="lagotto", top_k=50, collection="notes")
        assert status_of(few) == ("hits", 1, 1, None)


async def test_several_queries_share_a_context() -> None:
    """Which passages are for each is said; a cursor has no meaning for them."""
    asked = {"queries": ["lagotto", "oak", "zzz"], "max_tokens": 3_000}
    async with base_of(LONG, DOG) as base:
        answer = await ask(base, "context", **asked)
        with pytest.raises(ConfigError, match="pass one of both"):
            await ask(base, "context", query="oak", **asked)
        with pytest.raises(ConfigError, match="pass one of both"):
            await ask(base, "context", cursor="x", **asked)
        with pytest.raises(ConfigError, match="pass one of both"):
            await ask(base, "context")
    status = status_of(answer)
    assert (status.unit, status.cursor) == ("passages", None)
    assert status.shown == status.total >= 2
    lines = answer.splitlines()[2:5]
    assert [line.partition(": ")[0] for line in lines] == ['"lagotto"', '"oak"', '"zzz"']
    assert all("[" in line for line in lines[:2])


async def test_context_cuts_a_passage_that_is_too_long() -> None:
    text = "Truffles " + "😀 " * 2_000
    async with base_of(Document(id="x", text=text)) as base:
        answer = await ask(base, "context", query="truffles", max_tokens=LEAST_TOKENS)
        (key,) = heads_of(answer)
        assert answer.rstrip().endswith("…")
        assert (await own_base(base).resolve(key)).text.strip() in text


async def test_outline_and_its_numbers() -> None:
    async with base_of(LONG) as base:
        answer = await ask(base, "outline", id="long")
        assert status_of(answer) == ("sections", 2, 2, None)
        assert "> 1 First (~2250 tokens, page 1)" in answer
        assert "> 1.1 Within (~1250 tokens, page 1)" in answer
        assert "2 pages, 399 lines" in answer
        part = await ask(base, "read", id="long", section="1.1", max_tokens=9_000)
        assert quoted_text([part]) == LONG.text[4_000:9_000]
        many = tuple(Heading(start=n, end=n + 1, level=1, title=f"H{n}") for n in range(900))
        await own_base(base).add(Document(id="many", text="x" * 1_000, headings=many))
        answers = await pages(base, "outline", id="many", max_tokens=2_000)
        assert sum(status_of(answer).shown for answer in answers) == 900 < len(answers) * 900


@pytest.mark.parametrize(
    "part", [{}, {"section": "within"}, {"page": 2}, {"page": "1-2"}, {"lines": "3-90"}]
)
async def test_reading_on_gives_the_whole_part(part: dict[str, object]) -> None:
    async with base_of(LONG) as base:
        answers = await pages(base, "read", id="long", max_tokens=1_000, **part)
        read = quoted_text(answers)
        assert read
        assert read in LONG.text
        assert len(read) == status_of(answers[0]).total
        for answer in answers:
            (key,) = heads_of(answer)
            assert (await own_base(base).resolve(key)).text == quoted_text([answer])


async def test_reading_starts_at_the_passage() -> None:
    async with base_of(LONG, ONLY_TITLE) as base:
        answer = await ask(base, "read", id="default/long#500-600")
        assert quoted_text([answer]).startswith(LONG.text[500:600])
        assert "> Truffle catalogue" in await ask(base, "read", id="t")


async def test_a_cursor_of_a_changed_document_is_refused() -> None:
    async with base_of(LONG) as base:
        cursor = status_of(await ask(base, "read", id="long")).cursor
        await own_base(base).add(
            LONG.model_copy(update={"text": LONG.text + "!", "content_hash": "x"})
        )
        with pytest.raises(ConfigError, match="the document has changed"):
            await ask(base, "read", id="long", cursor=cursor)


async def test_collections() -> None:
    async with base_of(LONG, DOG) as base:
        answer = await ask(base, "collections")
        assert answer.splitlines()[1:] == ['"default": 1 documents', '"notes": 1 documents']
        more = [Document(text="x", collection=f"c{number}") for number in range(80)]
        await own_base(base).add(*more)
        answers = await pages(base, "collections", max_tokens=LEAST_TOKENS)
        assert sum(status_of(answer).shown for answer in answers) == 82 > len(answers) > 1


async def test_add_and_remove() -> None:
    async with base_of(writes=True) as base:
        added = await ask(base, "add", text="Oak.", title="O", collection="c", metadata={"n": 1})
        name = added.removeprefix("added: id=")
        assert json.loads(await ask(base, "fetch", id=name))["metadata"]["n"] == 1
        again = await ask(base, "add", text="Oak.", title="O", collection="c", metadata={"n": 1})
        assert again == f"it was there already: id={name}"
        other = await ask(base, "add", text="Oak.", title="O", collection="c", metadata={"n": 2})
        assert other == f"it was there already, and keeps its metadata: id={name}"
        assert json.loads(await ask(base, "fetch", id=name))["metadata"]["n"] == 1
        assert await ask(base, "remove", ids=[name, f"{name}#0-4", "c/no"]) == (
            "removed 1 of 2; no document is called c/no"
        )
        with pytest.raises(ConfigError, match="there is no document"):
            await ask(base, "fetch", id=name)
        with pytest.raises(ConfigError, match="64 bits"):
            await ask(base, "add", text="x", metadata={"n": 2**70})


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("search", {}, r"query: it is missing; search takes .*, query \(required\)"),
        ("search", {"query": "x", "limit": 3}, "limit: there is no such argument"),
        ("search", {"query": "x", "top_k": 1_000}, "less than or equal to 50, and it is 1000"),
        ("search", {"query": "x", "max_tokens": 10}, "greater than or equal to 500"),
        ("search", {"query": "x", "filters": {"$no": 1}}, "no"),
        ("search", {"query": "x", "cursor": "3"}, "repeat the arguments"),
        ("read", {"id": "long", "page": 1, "lines": "3"}, "page and lines are given; pass one"),
        ("read", {"id": "no"}, "there is no document 'default/no'; pass an id"),
        ("outline", {"id": ""}, "at least 1 character"),
        ("remove", {"ids": []}, "at least 1 item"),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_said(name: str, arguments: dict[str, object], told: str) -> None:
    async with base_of(LONG, writes=True) as base:
        with pytest.raises(ConfigError, match=told):
            await ask(base, name, **arguments)


scripts = st.sampled_from(["abc ", "犬は", "собака ", "😀", "x", "\n", '"\\', "\x00\x07", "= | "])
texts = st.builds(
    lambda parts, times: "".join(parts) * times,
    st.lists(scripts, min_size=1, max_size=6),
    st.integers(1, 700),
)


@given(
    st.lists(st.tuples(texts, st.none() | texts), min_size=1, max_size=3),
    st.integers(LEAST_TOKENS, 12_000),
    texts,
)
@settings(max_examples=10)
async def test_no_answer_has_more_tokens_than_asked_for(
    drawn: list[tuple[str, str | None]], budget: int, query: str
) -> None:
    documents = [
        Document(id=f"d{number}", text=text, title=title and title[:200])
        for number, (text, title) in enumerate(drawn)
    ]
    asked = {"query": query[:300], "max_tokens": budget}
    async with base_of(*documents) as base:
        for name, arguments in (
            ("search", asked),
            ("context", asked),
            ("fetch", {"id": "d0", "max_tokens": budget}),
            ("read", {"id": "d0", "max_tokens": budget}),
            ("outline", {"id": "d0", "max_tokens": budget}),
        ):
            answer = await ask(base, name, **arguments)
            assert on_wire(answer) <= min(budget, MOST_TOKENS)
            status = status_of(answer)
            assert status.shown <= status.total
            assert (status.cursor is not None) <= (status.shown < status.total)


async def test_an_answer_that_can_not_be_short_enough_says_so() -> None:
    async with base_of(Document(id="i" * 3_000, text="Oak.")) as base:
        with pytest.raises(ConfigError, match="max_tokens is 500, and the shortest answer"):
            await ask(base, "read", id="i" * 3_000, max_tokens=500)


def test_a_cut_at_a_word_is_within_the_budget() -> None:
    """The key of a shorter text may have more tokens: its hash is another one."""
    text = " ".join(f"w19x{number}" for number in range(400))
    document, whole = Document(id="d", text=text), Span(0, len(text))
    for budget in range(600, 680):
        assert on_wire(excerpt(document, whole, whole=whole, budget=budget)) <= budget


async def test_no_tool_may_answer_with_more_than_its_budget() -> None:
    """Tools keep it themselves; this is for the one that does not."""

    text = "oak " * 600
    exactly = on_wire(text)

    async def fixed(agent: Agent, asked: Arguments) -> str:
        return text

    async with base_of() as base:
        tool = Tool("greedy", "Answers.", Arguments, fixed)
        assert await tool(base, {"max_tokens": exactly}) == text
        with pytest.raises(ConfigError, match=f"the shortest answer to this has {exactly} tokens"):
            await tool(base, {"max_tokens": exactly - 1})


def test_every_tool_is_described() -> None:
    for name, tool in TOOLS.items():
        assert tool.name == name
        assert tool.description.endswith(".")
        assert set(tool.schema["properties"]) == set(tool.arguments.model_fields)
