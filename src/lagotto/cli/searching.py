"""`search`: the passages that answer a question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lagotto.cli.opening import open_existing
from lagotto.cli.options import AsJson, BaseOptions, Fusion, InCollection, Mode, Where
from lagotto.cli.output import print_json, say, stdout, warn

if TYPE_CHECKING:
    from lagotto.results import RetrievalResult
    from lagotto.sync import KnowledgeBase


def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A question or some words.")],
    base: BaseOptions,
    top_k: Annotated[int, typer.Option("--top-k", min=1, help="How many passages.")] = 10,
    mode: Annotated[Mode, typer.Option("--mode", help="By meaning, by words, or both.")] = "hybrid",
    collection: InCollection = None,
    where: Where = None,
    fusion: Annotated[
        Fusion, typer.Option("--fusion", help="How meaning and words make one score.")
    ] = "convex",
    no_fuzzy: Annotated[
        bool, typer.Option("--no-fuzzy", help="Take misspelt words as they are.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find the passages that answer a question best."""
    with open_existing(base) as kb:
        found = kb.retrieve(
            query,
            top_k=top_k,
            mode=mode,
            collection=collection,
            where=where,
            fusion=fusion,
            fuzzy=not no_fuzzy,
        )
        languages = {} if as_json else languages_of(kb, found)
    if as_json:
        results = [{**hit.model_dump(mode="json"), "citation": hit.citation} for hit in found]
        degraded = list(found.degraded)
        print_json({"query": query, "mode": mode, "degraded": degraded, "results": results})
        return
    warn(found.degraded)
    _print(found, query, languages)


def _print(
    found: list[RetrievalResult], query: str, languages: dict[tuple[str, str], str | None]
) -> None:
    from lagotto.cli.render import print_hit

    console = stdout()
    for hit in found:
        language = languages.get((hit.collection, hit.document_id))
        print_hit(console, hit, query=query, language=language)
    if not found:
        say("nothing was found")


def languages_of(
    kb: KnowledgeBase, hits: list[RetrievalResult]
) -> dict[tuple[str, str], str | None]:
    """The language of each hit's document, by collection and id."""
    from lagotto.filters import In

    ids = sorted({hit.document_id for hit in hits})
    documents = kb.documents(where=In("document_id", ids)) if ids else []
    return {(document.collection, document.id): document.language for document in documents}
