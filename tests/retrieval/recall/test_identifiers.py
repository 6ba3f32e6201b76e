"""Questions that mention an identifier, over rows, logs, part lists, and mails without it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from lagotto import AsyncKnowledgeBase, Document
from lagotto.testing.hash_embedder import HashEmbedder

PLACES = ("Northbridge", "Eastmere", "Ferry Lane", "Old Lock", "Mill Weir", "Stonegate")
PEOPLE = ("Amara", "Bosko", "Chidi", "Dagny")
CAUSES = ("timeout", "disk full", "bad checksum", "lost connection", "wrong password")
PARTS = ("gasket", "bearing", "valve", "hose", "filter", "impeller", "seal")

STATIONS = [
    f"Station ST-{1700 + 7 * i}: {PLACES[i % 6]}, alarm level {210 + 11 * i} cm, pump {i % 4 + 1}, "
    f"inspected by {PEOPLE[i % 4]}"
    for i in range(40)
]
LOGS = [
    "\n".join(
        f"2026-03-{day:02} 04:1{line}:07 ERROR job {line} stopped with "
        f"ERR_{4000 + 13 * day + line}: {CAUSES[(day + line) % 5]}, see node n{day}-rack{line}"
        for line in range(3)
    )
    for day in range(1, 15)
]
SHELVES = [
    "\n".join(
        f"- PN-{4400 + 10 * sheet + line}-{'ABC'[line]} {PARTS[(sheet + line) % 7]} for pump "
        f"{line + 1}, shelf {'BDF'[line]}{sheet}, {sheet + 2} in stock"
        for line in range(3)
    )
    for sheet in range(14)
]
MAILS = [
    "What is the alarm level of a station? The alarm level is the level of the water at which the "
    "station raises the alarm. Which alarm level a station has depends on the station.",
    "Who inspected the station, and which pump does the station have? Please say who inspected it.",
    "Why did the job stop with an error? A job stops with an error when the cause of the error is "
    "a timeout, and then the job is stopped with the error in the log.",
    "On which node did the job stop? See the node of the job that stopped, and the node's rack.",
    "On which shelf is the part kept, and how many are in stock? Parts in stock are kept on a "
    "shelf; the shelf of a part says how many of the part are in stock.",
    "For which pump is this part, and is the part for this pump in stock on the shelf of the pump?",
]

QUESTIONS = [
    *(
        (f"ST-{1700 + 7 * i}", question)
        for i, question in enumerate(
            [
                "What is the alarm level of {}?",
                "At which level does {} raise the alarm?",
                "Who inspected the station {}?",
                "Which pump does {} have, and who inspected it?",
                "Where is {}, and what is its alarm level?",
                "I need to know the alarm level of the station {} before we open the lock.",
                "Please tell me who has inspected station {}.",
                "Is the alarm level of {} above three metres?",
                "What was noted about the water level at {}?",
                "Does {} have a pump, and which one is it?",
                "Which of the stations is {}, and who looks after it?",
                "What level must the water reach at {} for an alarm?",
                "Can you say which pump belongs to the station {}?",
                "What is known about {}?",
            ]
        )
    ),
    *(
        (f"ERR_{4000 + 13 * (i + 1) + i % 3}", question)
        for i, question in enumerate(
            [
                "Why did the job stop with {}?",
                "What is the cause of the error {}?",
                "On which node did {} happen?",
                "When was a job stopped with the error {}?",
                "Which job was stopped by {}, and on which node?",
                "The log says {}, what is the cause of that error?",
                "Is {} a timeout or is the disk full?",
                "Which rack has to be looked at because of {}?",
                "What happened on the day of {}?",
                "What does {} mean for the job that stopped?",
                "Did the job that ended with {} lose its connection?",
                "Which cause does the log give for the error {}?",
                "How often did a job stop with {}?",
            ]
        )
    ),
    *(
        (f"PN-{4400 + 10 * i + i % 3}-{'ABC'[i % 3]}", question)
        for i, question in enumerate(
            [
                "On which shelf is {} kept?",
                "How many of the part {} are in stock?",
                "For which pump is the part {}?",
                "What kind of part is {}, and is it in stock?",
                "Do we have {} in stock for this pump?",
                "Where do I find the part {} on the shelf?",
                "Is {} a gasket or a hose?",
                "Which part has the number {}, and how many are kept?",
                "What is {} used for?",
                "Please look up how many parts {} are kept on the shelf.",
                "Which shelf has the part {} for the pump?",
                "Is the part with the number {} for the first pump?",
                "What does the part list say about {}?",
            ]
        )
    ),
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
        groups = {"station": STATIONS, "log": LOGS, "shelf": SHELVES, "mail": MAILS}
        await base.add_documents(
            [
                Document(id=f"{name}-{number:02}", text=text, language="en")
                for name, texts in groups.items()
                for number, text in enumerate(texts)
            ]
        )
        yield base


async def test_a_passage_that_holds_the_identifier_comes_first(kb: AsyncKnowledgeBase) -> None:
    assert len(QUESTIONS) == 40
    others = []
    for identifier, question in QUESTIONS:
        (first, *_) = await kb.retrieve(question.format(identifier))
        if identifier not in first.content:
            others.append(question.format(identifier))
    assert others == []


VALVES = [
    f"| VLV-{3000 + 17 * i} | {PLACES[i % 6]} | {40 + i % 37} kPa | {PEOPLE[i % 4]} |"
    for i in range(150)
]
TABLE = "\n".join(
    [
        "# Valves\n\nMaximum pressure and inspector of each valve:\n",
        "| Valve | Site | Pressure | Inspector |\n| --- | --- | --- | --- |",
        *VALVES,
    ]
)


@pytest.mark.parametrize("spelled", [str, str.lower, "#{}".format, "{}'s".format])
async def test_a_row_of_a_large_table_comes_first(
    tmp_path: Path, spelled: Callable[[str], str]
) -> None:
    (tmp_path / "valves.md").write_text(TABLE)
    mail = "The maximum pressure of a valve is what the inspector of the valve at the site says."
    (tmp_path / "mail.txt").write_text(mail)
    others = []
    async with AsyncKnowledgeBase(":memory:", embedder=HashEmbedder()) as kb:
        await kb.add(str(tmp_path))
        for number in range(9, 150, 14):
            identifier = f"VLV-{3000 + 17 * number}"
            for question in (
                "What is the maximum pressure of {}?",
                "Who is the inspector of the valve {}?",
                "At which site is {}?",
                "Please tell me the pressure of valve {} and its inspector.",
            ):
                (first, *_) = await kb.retrieve(question.format(spelled(identifier)))
                if identifier not in first.content:
                    others.append(question.format(spelled(identifier)))
    assert others == []


async def test_of_several_holders_the_best_comes_first(kb: AsyncKnowledgeBase) -> None:
    note = "A note: ST-1777 is silent since Monday, somebody has to drive there."
    await kb.add_documents([Document(id="note", text=note, language="en")])
    for question, holder in (
        ("What is the alarm level of ST-1777?", "station-11"),
        ("Why is ST-1777 silent, and does somebody have to drive there?", "note"),
    ):
        (first, second, *_) = await kb.retrieve(question)
        assert first.document_id == holder, question
        assert first.score > second.score


async def test_what_many_passages_hold_is_boosted_to_the_third_rank_only() -> None:
    asked = "What is the alarm level of a station, and who inspected the station for QX-77?"
    notes = [f"Device QX-77 was moved to room {number}." for number in range(4)]
    async with AsyncKnowledgeBase(":memory:", embedder=HashEmbedder()) as kb:
        await kb.add_documents(
            [
                Document(id=f"m{number}", text=text, language="en")
                for number, text in enumerate((*MAILS, *STATIONS, *notes))
            ]
        )
        ranks = [hit.rank for hit in await kb.retrieve(asked) if "QX-77" in hit.content]
        assert ranks[0] == 3
        await kb.remove(f"m{len(MAILS) + len(STATIONS)}")
        (first, *_) = await kb.retrieve(asked, explain="candidates")
        assert "QX-77" in first.content
