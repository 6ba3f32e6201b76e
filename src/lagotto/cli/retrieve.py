"""`retrieve`: the passages that answer a question best, as a ranked list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lagotto.cli.connect import open_for_a_question
from lagotto.cli.options import AsJson, BaseOptions, SearchOptions
from lagotto.cli.output import print_json, say, stdout, warn
from lagotto.cli.query import Query, arguments, mode_of

if TYPE_CHECKING:
    from lagotto.results import Results
    from lagotto.retrieval.why_not import WhyNot


def retrieve(
    query: Query,
    base: BaseOptions,
    how: SearchOptions,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show how each score is made up.")
    ] = False,
    why_not: Annotated[
        str | None,
        typer.Option(
            "--why-not", metavar="DOCUMENT", help="Explain why this document is not among the hits."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find the best passages for a question."""
    given = arguments(how)
    reason: WhyNot | None = None
    with open_for_a_question(base) as kb:
        if why_not is None:
            found = kb.retrieve(query, **given)
        else:
            reason = kb.why_not(query, why_not, **given)
            found = reason.results
    if as_json:
        print_json(_as_json(query, mode_of(given), found, reason))
        return
    warn(found.degraded)
    if explain:
        _print_corrections(found)
    _print(found, query, explain=explain)
    if reason is not None:
        say(str(reason))


def _as_json(query: str, mode: str, found: Results, reason: WhyNot | None) -> dict[str, object]:
    results = [{**hit.model_dump(mode="json"), "citation": hit.citation} for hit in found]
    answer: dict[str, object] = {
        "query": query,
        "mode": mode,
        "degraded": list(found.degraded),
        "corrections": {word: list(terms) for word, terms in found.stats.corrections.items()},
        "results": results,
    }
    if reason is not None:
        answer["why_not"] = reason.model_dump(mode="json")
    return answer


def _print_corrections(found: Results) -> None:
    for word, terms in found.stats.corrections.items():
        say(f"corrected: {word} -> {', '.join(terms)}")


def _print(found: Results, query: str, *, explain: bool) -> None:
    from lagotto.cli.render import print_hit

    console = stdout()
    for hit in found:
        print_hit(console, hit, query=query, explain=explain)
    if not found:
        say("nothing was found")
