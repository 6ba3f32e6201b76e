"""The user's own boosts: what they multiply, what stays, and how it is explained."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio

from lagotto import AsyncKnowledgeBase, Boost, ConfigError, Document, RetrievalPrefs, field, recency
from lagotto.retrieval.boosts import document_date, factor_of
from lagotto.testing.hash_embedder import HashEmbedder

QUERY = "reset the pump with the button"
TODAY = datetime(2024, 6, 1, tzinfo=UTC)
DOCUMENTS = [
    Document(
        id=f"{kind}-{number}",
        kind=kind,
        source=f"notes/{TODAY - timedelta(days=30 * number):%Y-%m-%d}.md",
        text=f"Reset the pump {'with the red button ' * (number % 3)}in hall {number}.",
        language="en",
    )
    for number in range(12)
    for kind in ("note", "manual")
]


@pytest_asyncio.fixture(params=["memory", "tantivy", "fts5"])
async def kb(request: pytest.FixtureRequest, tmp_path: object) -> AsyncIterator[AsyncKnowledgeBase]:
    stored = request.param != "memory"
    base = AsyncKnowledgeBase(
        f"{tmp_path}/kb.db" if stored else ":memory:",
        embedder=HashEmbedder(),
        text_index=request.param if stored else None,
    )
    async with base:
        await base.add_documents(DOCUMENTS)
        yield base


BOOSTS = [field("kind", "manual", 1.2), recency("date", half_life="90d", now=TODAY)]


async def test_scores_are_products_that_add_up_in_every_view(kb: AsyncKnowledgeBase) -> None:
    plain = {hit.document_id: hit for hit in await kb.retrieve(QUERY, top_k=24)}
    hits = await kb.retrieve(QUERY, top_k=24, boost=BOOSTS)
    assert [hit.document_id for hit in hits] != list(plain)
    for hit in hits:
        made = hit.breakdown
        assert made.fused_score == plain[hit.document_id].score
        kind, date = made.boosts.values()
        number = int(hit.document_id.rpartition("-")[2])
        assert kind == (1.2 if hit.document_kind == "manual" else 1.0)
        assert date == pytest.approx(1 + 0.2 * 0.5 ** (number / 3))
        assert (
            hit.score
            == made.boosted
            == pytest.approx(made.fused_score * kind * date / made.boost_scale)
        )
        assert f'boost {{"kind": {{"$eq": "manual"}}}} x {kind:.4f}' in hit.explain()
        assert f"boost recency of date x {date:.4f}" in hit.explain()
        assert 0 <= hit.score <= 1
    bundle = await kb.search(QUERY, boost=BOOSTS)
    assert [item.item_id for item in bundle.candidates] == [hit.document_id for hit in hits[:20]]
    late = await kb.retrieve(QUERY, boost=BOOSTS, chunking={"strategy": "late"})
    assert late[0].document_id == hits[0].document_id
    assert late[0].score == late[0].breakdown.boosted
    why = await kb.why_not(QUERY, hits[20].document_id, top_k=3, boost=BOOSTS)
    assert why.rank == 21


async def test_the_first_do_not_depend_on_how_many_are_asked_for(kb: AsyncKnowledgeBase) -> None:
    many = await kb.retrieve(QUERY, top_k=20, boost=BOOSTS)
    for count in (1, 5):
        few = await kb.retrieve(QUERY, top_k=count, boost=BOOSTS)
        assert [(hit.document_id, hit.score) for hit in few] == [
            (hit.document_id, hit.score) for hit in many[:count]
        ]


async def test_the_order_stays_where_products_are_above_one(kb: AsyncKnowledgeBase) -> None:
    boost = [field("kind", ["manual"], 3.0)]
    hits = await kb.retrieve(QUERY, top_k=24, mode="keyword", boost=boost)
    assert hits[0].score == 1.0
    assert hits[0].breakdown.boost_scale == pytest.approx(3.0)
    products = [
        (hit.breakdown.fused_score or 0) * sum(hit.breakdown.boosts.values()) for hit in hits
    ]
    assert products == sorted(products, reverse=True)
    assert "/ 3.0000" in hits[0].explain()


async def test_thresholds_act_on_the_boosted_score(kb: AsyncKnowledgeBase) -> None:
    plain = await kb.retrieve(QUERY, top_k=24)
    least = plain[11].score + 1e-9
    hits = await kb.retrieve(QUERY, top_k=24, min_score=least, boost=[field("kind", "none", 1.2)])
    assert len(hits) == sum(hit.score >= least for hit in plain)
    raised = await kb.retrieve(QUERY, top_k=24, min_score=least, boost=[field("kind", "note", 1.1)])
    assert {hit.document_id for hit in hits} <= {hit.document_id for hit in raised}


async def test_nothing_is_read_or_said_without_one(kb: AsyncKnowledgeBase) -> None:
    (hit, *_) = await kb.retrieve(QUERY)
    assert (hit.breakdown.boosts, hit.breakdown.boosted) == ({}, None)
    assert "boost" not in hit.explain()


@pytest.mark.parametrize(
    ("fields", "date"),
    [
        ({"metadata": {"date": "2020-01-02"}, "created_at": TODAY}, "2020-01-02"),
        ({"created_at": TODAY, "source": "2021-03-04.md"}, "2024-06-01"),
        ({"source": "a/20210304-log.md", "updated_at": TODAY}, "2021-03-04"),
        ({"source": "2021-03-04/log.md", "updated_at": TODAY}, "2024-06-01"),
        ({"source": "report-20213304.md"}, None),
        ({"source": "2021-02-30.md", "metadata": {"date": "soon"}}, None),
    ],
)
def test_the_date_of_a_document(fields: dict[str, object], date: str | None) -> None:
    found = document_date(Document(text="A text.", **fields))
    assert (found and f"{found:%Y-%m-%d}") == date


@pytest.mark.parametrize(
    ("document", "factor"),
    [
        ({"source": "2024-06-01.md"}, 2.0),
        ({"source": "2025-06-01.md"}, 2.0),
        ({"source": "2024-05-22.md"}, 1.5),
        ({}, 1.0),
    ],
)
def test_recency_fades(document: dict[str, object], factor: float) -> None:
    boost = recency(half_life="10d", factor=2.0)
    assert factor_of(boost, Document(text="A text.", **document), None, today=TODAY) == factor


def test_other_fields_with_dates() -> None:
    document = Document(text="A text.", metadata={"due": "2024-05-22"}, updated_at=TODAY)
    for name, factor in (("due", 1.5), ("updated_at", 2.0), ("other", 1.0)):
        boost = recency(name, half_life=timedelta(days=10), factor=2.0)
        assert factor_of(boost, document, None, today=TODAY) == factor


def test_settings_as_data() -> None:
    wanted = (field("kind", "manual", 1.2), recency(half_life="6w", now=TODAY))
    prefs = RetrievalPrefs(boost=list(wanted))
    assert prefs.boost == wanted
    assert RetrievalPrefs.from_dict(prefs.given_for("retrieve")).boost == wanted
    assert prefs.replace(top_k=3).boost == wanted
    text = '[{"where": {"kind": "manual"}, "factor": 1.2}]'
    assert RetrievalPrefs.from_env({"LAGOTTO_RETRIEVAL_BOOST": text}).boost == wanted[:1]
    assert RetrievalPrefs(boost=wanted[0]).boost == wanted[:1]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([{}], "boost.0: give where, a filter, or recency"),
        ([{"where": {"kind": "a"}, "half_life": "9d"}], "half_life and now are for recency"),
        ([{"recency": "date", "half_life": "soon"}], "write a number of days"),
        ([{"recency": "date", "factor": 0}], "boost.0.factor"),
        ([{"recencies": "date"}], "boost.0.recencies: there is no such setting"),
        ("recency", "write JSON such as"),
    ],
)
def test_wrong_settings_are_explained(given: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        RetrievalPrefs(boost=given)


def test_a_boost_is_a_setting_of_its_own() -> None:
    assert Boost(recency="date").half_life == 90
