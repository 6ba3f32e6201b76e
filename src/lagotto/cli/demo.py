"""`demo`: hybrid search compared with its parts, on documents that come with the package."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import typer

from lagotto._internal.display import counted
from lagotto._internal.locations import mask_location
from lagotto.cli.options import EMBEDDER, option
from lagotto.cli.output import one_line, printable, say, stdout
from lagotto.errors import ConfigError

if TYPE_CHECKING:
    from lagotto.demo import DemoOutcome


PACK_TOKENS = 400


def demo(
    kb: str | None = option("Create the base here and keep it.", metavar="PATH"),
    embedder: str | None = EMBEDDER,
    keep: bool = option("Keep the temporary base.", default=False),
    documents: Path | None = option("Only copy the documents to a new folder.", metavar="FOLDER"),
) -> None:
    """Search bundled documents by vectors, by full text and by both. Works offline."""
    if documents is not None:
        from lagotto.demo import corpus

        with corpus() as bundled:
            try:
                shutil.copytree(bundled, documents)
            except FileExistsError as exc:
                message = f"{documents} exists; name a new folder for the documents"
                raise ConfigError(message) from exc
        count = counted(sum(1 for _ in documents.iterdir()), "document")
        typer.echo(f"{count} copied to {documents}")
        return
    from lagotto.base.blocking import KnowledgeBase
    from lagotto.cli.progress import Meter
    from lagotto.demo import COLLECTION, add_corpus, ask, examples, questions

    with (
        demo_location(kb, keep=keep) as location,
        KnowledgeBase(location, embedder=embedder) as base,
    ):
        say("Adding the demo documents ...")
        with Meter() as meter:
            report = add_corpus(base, progress=meter)
        say(str(report))
        outcomes = [ask(base, question) for question in questions()]
        chosen = examples(outcomes)
        question = (chosen or outcomes)[0].question.question
        pack = base.context(question, collection=COLLECTION, max_tokens=PACK_TOKENS, top_k=3)
    _print_ranks(outcomes)
    for outcome in chosen:
        _print_answer(outcome)
    typer.echo(
        f'\nA cited context for a prompt ("{pack.query}", at most {PACK_TOKENS} tokens):\n\n'
        f"{printable(str(pack))}"
    )
    if not kb and not keep:
        location = "demo.db"
        typer.echo(f"\nKeep these documents:  lagotto demo --kb {location}")
    address = quote(mask_location(location))
    typer.echo(
        f'\nTry next:  lagotto --kb {address} retrieve "{question}" --explain\n'
        f'           lagotto --kb {address} context "{question}" --max-tokens 500\n'
        "           lagotto add YOUR_FOLDER, then lagotto retrieve YOUR_QUESTION"
    )


@contextmanager
def demo_location(kb: str | None, *, keep: bool) -> Iterator[str]:
    """The location of the demo's base: `kb`, or a temporary folder, removed unless `keep`."""
    if kb is not None:
        yield kb
        return
    folder = Path(tempfile.mkdtemp(prefix="lagotto-demo-"))
    try:
        yield str(folder / "demo.db")
    finally:
        if not keep:
            shutil.rmtree(folder)


def _print_ranks(outcomes: list[DemoOutcome]) -> None:
    from lagotto.cli.render import print_table
    from lagotto.demo import MODES, TOP_K

    console = stdout()
    console.print(
        f"Rank of the document that holds the answer, by search mode (-: not in the top {TOP_K}):\n"
    )
    rows = []
    for outcome in outcomes:
        ranks = (str(outcome.ranks[mode] or "-") for mode in MODES)
        rows.append((one_line(outcome.question.question), *ranks))
    print_table(console, ("question", *MODES), rows)
    first = [sum(outcome.ranks[mode] == 1 for outcome in outcomes) for mode in MODES]
    counts = ", ".join(f"{mode} {count}" for mode, count in zip(MODES, first, strict=True))
    console.print(f"\nRight document first, of {len(outcomes)} questions: {counts}")


def _print_answer(outcome: DemoOutcome) -> None:
    from lagotto.cli.render import highlighted, print_indented, print_parts

    hit = outcome.hit
    if hit is None:
        return
    console, question = stdout(), outcome.question.question
    console.print()
    print_parts(console, (one_line(question), "bold"))
    print_indented(console, (one_line(hit.citation), "cyan"))
    print_indented(console, *highlighted(hit.content, question, language=hit.language))
