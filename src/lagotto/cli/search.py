"""`search`: the passages that answer a question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lagotto.cli.connect import open_existing
from lagotto.cli.options import (
    DEFAULT_COLLECTION,
    AsJson,
    BaseOptions,
    Filters,
    InCollection,
    Mode,
    SearchOptions,
)
from lagotto.cli.output import print_json, say, stdout, warn
from lagotto.errors import ConfigError

if TYPE_CHECKING:
    from lagotto.prefs import RetrievalPrefs
    from lagotto.results import RetrievalResult
    from lagotto.sync_facade import KnowledgeBase


def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A question or keywords.")],
    base: BaseOptions,
    how: SearchOptions,
    top_k: Annotated[
        int | None, typer.Option("--top-k", min=1, help="Number of hits. [default: 10]")
    ] = None,
    mode: Annotated[
        Mode | None, typer.Option("--mode", help="Vectors, full text, or both. [default: hybrid]")
    ] = None,
    collection: InCollection = None,
    filters: Filters = None,
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
    prefs = preferences(how, top_k=top_k, mode=mode)
    with open_existing(base) as kb:
        found = kb.retrieve(query, prefs=prefs, filters=filters, collection=collection)
        languages = {} if as_json else languages_of(kb, found)
        reason = None
        if why_not is not None:
            place = collection or DEFAULT_COLLECTION
            reason = kb.why_not(query, why_not, collection=place, prefs=prefs, filters=filters)
    if as_json:
        results = [{**hit.model_dump(mode="json"), "citation": hit.citation} for hit in found]
        said: dict[str, object] = {
            "query": query,
            "mode": prefs.mode,
            "degraded": list(found.degraded),
            "results": results,
        }
        if reason is not None:
            said["why_not"] = reason.model_dump(mode="json")
        print_json(said)
        return
    warn(found.degraded)
    _print(found, query, languages, explain=explain)
    if reason is not None:
        say(str(reason))


def preferences(how: SearchOptions, **given: Any) -> RetrievalPrefs:
    """What the environment says, a file or preset on top of it, then single settings."""
    from lagotto.prefs import RetrievalPrefs

    if how.preset and how.prefs:
        raise ConfigError("give --preset or --prefs, not both: a file may name a preset itself")
    if how.prefs:
        prefs = RetrievalPrefs.from_toml(how.prefs)
    elif how.preset:
        prefs = RetrievalPrefs.preset(how.preset)
    else:
        prefs = RetrievalPrefs.from_env()
    for setting in how.set:
        prefs = prefs.replace(**_nested(setting))
    if how.reranker:
        prefs = prefs.replace(rerank={"reranker": how.reranker})
    return prefs.replace(**{name: value for name, value in given.items() if value is not None})


def _nested(setting: str) -> dict[str, Any]:
    """`scoring.blend=rrf` as a dict of dicts."""
    name, equals, value = setting.partition("=")
    if not equals or not name:
        raise ConfigError(f"--set {setting}: it should look like scoring.blend=rrf")
    nested: Any = value
    for part in reversed(name.split(".")):
        nested = {part: nested}
    return dict(nested)


def _print(
    found: list[RetrievalResult],
    query: str,
    languages: dict[tuple[str, str], str | None],
    *,
    explain: bool,
) -> None:
    from lagotto.cli.render import print_hit

    console = stdout()
    for hit in found:
        language = languages.get((hit.collection, hit.document_id))
        print_hit(console, hit, query=query, language=language, explain=explain)
    if not found:
        say("nothing was found")


def languages_of(
    kb: KnowledgeBase, hits: list[RetrievalResult]
) -> dict[tuple[str, str], str | None]:
    """The language of each hit's document, by collection and id."""
    from lagotto.filters import In

    ids = sorted({hit.document_id for hit in hits})
    documents = kb.documents(filters=In("document_id", ids)) if ids else []
    return {(document.collection, document.id): document.language for document in documents}
