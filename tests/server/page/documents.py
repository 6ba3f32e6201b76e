"""Documents that the page is tested with: plain ones, one with structure, and hostile ones."""

from __future__ import annotations

from lagotto.documents import Document, Heading, Page

MANUAL = """# Pump manual

Read this before use.

## Start

Open the valve \U0001f6b0 first. Then press the green button and wait until the truffle lamp is on.

## Stop

Press the red button.
"""

ATTACKS = (
    '<img src=x onerror="window.attacked=1">',
    "<script>window.attacked=1</script>",
    '"><svg onload="window.attacked=1">',
    "</mark></p><iframe srcdoc='<script>parent.attacked=1</script>'>",
    "[click](javascript:window.attacked=1) ![x](http://evil.example/pixel.png)",
    "{{constructor.constructor('window.attacked=1')()}}",
)


def manual(text: str = MANUAL) -> Document:
    """A document with headings and pages."""
    start, stop = text.index("## Start"), text.index("## Stop")
    return Document(
        id="manual",
        title="Pump manual",
        source="manuals/pump.md",
        text=text,
        headings=(
            Heading(start=0, end=len(text), level=1, title="Pump manual"),
            Heading(start=start, end=stop, level=2, title="Start"),
            Heading(start=stop, end=len(text), level=2, title="Stop"),
        ),
        pages=(
            Page(start=0, end=stop, number=1),
            Page(start=stop, end=len(text), number=2),
        ),
        metadata={"topic": "machines", "year": 2024},
    )


def hostile() -> list[Document]:
    """Documents with an attack in every field that the page shows."""
    return [
        Document(
            id=f"evil/{number}{attack}",
            collection="hostile",
            title=f"Trap {number} {attack}",
            source=f"javascript:window.attacked=1//{attack}",
            text=f"The trap number {number} is set. {attack} It waits for hostile readers.",
            headings=(Heading(start=0, end=10, level=1, title=f"Heading {attack}"),),
            metadata={f"key{attack}": attack, "topic": attack},
        )
        for number, attack in enumerate(ATTACKS)
    ]


DOCUMENTS = [
    Document(
        id="dog",
        title="Lagotto",
        text="A water dog from Romagna that finds truffles in the woods.",
        metadata={"topic": "dogs", "year": 2020},
    ),
    Document(
        id="oak",
        title="Oaks",
        text="Truffles grow on the roots of oak and hazel.",
        metadata={"topic": "trees", "year": 2021},
    ),
    Document(
        id="pig", title="Pigs", text="Pigs find truffles too, and eat them.",
        metadata={"topic": "pigs"},
    ),
    Document(id="lake", title="Lakes", text="A lake is a body of still water; a dog may swim."),
    Document(id="error/4012", title="Errors", text="ERR_4012: the base is busy. Try again later."),
    *(
        Document(
            id=f"note{number:02}",
            title=f"Note {number}",
            text=f"Note {number} on water, woods and {'truffles' if number % 3 else 'dogs'}.",
            metadata={"topic": "notes", "year": 2000 + number},
        )
        for number in range(20)
    ),
    Document(  # holds an identifier that a question may mention besides what it asks for
        id="parts",
        title="Spare parts",
        text="The list of spare parts is long and dull. " * 6
        + "One of them is the QX-77 seal. "
        + "Others are screws, nuts, bolts, washers, springs and rings of many kinds. " * 4,
    ),
    Document(id="secret", collection="b", title="Plan", text="The truffle plan of tenant b."),
    manual(),
    *hostile(),
]  # fmt: skip
