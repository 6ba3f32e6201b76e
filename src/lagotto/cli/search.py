"""`retrieve`, `search` and `context`: the commands that search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import typer

from lagotto._internal.display import counted
from lagotto._internal.registry import did_you_mean
from lagotto.cli.connect import open_for_a_question
from lagotto.cli.options import BaseOptions, SearchOptions, argument, option, parse_filters
from lagotto.cli.output import printable, say, stdout, warn
from lagotto.errors import ConfigError

if TYPE_CHECKING:
    from lagotto.retrieval.why_not import WhyNot


QUERY = argument("A question or keywords.", metavar="QUERY")


def arguments(how: SearchOptions) -> dict[str, Any]:
    """The keyword arguments of the verb: preferences, single settings, and what has an option.

    The preferences are those of a file or preset, else of the environment.
    """
    from lagotto.prefs import RetrievalPrefs, merged_settings

    settings = settings_of(how.set)
    if how.reranker:
        settings = merged_settings(settings, {"rerank": how.reranker})
    named = {name: getattr(how, name) for name in ("top_k", "mode", "collection")}
    named["filters"] = parse_filters(how.filters)
    chosen = {name: value for name, value in named.items() if value is not None}
    if how.preset and how.prefs:
        raise ConfigError("give --preset or --prefs, not both: a file may name a preset itself")
    if how.prefs:
        prefs = RetrievalPrefs.from_toml(how.prefs)
    else:
        prefs = RetrievalPrefs.preset(how.preset) if how.preset else RetrievalPrefs.from_env()
    return {"prefs": prefs, **settings, **chosen}


def mode_of(settings: dict[str, Any]) -> str:
    """The mode that a search with these arguments runs in."""
    return str(settings.get("mode", settings["prefs"].mode))


def settings_of(pairs: list[str]) -> dict[str, Any]:
    """`NAME=VALUE` options as settings; ConfigError if there is no such setting."""
    from lagotto.prefs import RetrievalPrefs

    settings: dict[str, Any] = {}
    for setting in pairs:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise ConfigError(f"--set {setting}: write NAME=VALUE, such as scoring.blend=rrf")
        *groups, last = name.split(".")
        inner = settings
        for group in groups:
            if not isinstance(inner.get(group), dict):
                inner[group] = {}
            inner = inner[group]
        inner[last] = value
    unknown = sorted(settings.keys() - RetrievalPrefs.model_fields.keys())
    if unknown:
        guess = did_you_mean(unknown[0], RetrievalPrefs.model_fields)
        raise ConfigError(f"{', '.join(unknown)}: there is no such setting{guess}")
    return settings


def retrieve(
    base: BaseOptions,
    how: SearchOptions,
    query: str = QUERY,
    explain: bool = option("Show how each score is made up.", default=False),
    why_not: str | None = option(
        "Explain why this document is not among the hits.", metavar="DOCUMENT"
    ),
) -> Iterator[object]:
    """Find the best passages for a question."""
    settings = arguments(how)
    reason: WhyNot | None = None
    with open_for_a_question(base) as kb:
        if why_not is None:
            hits = kb.retrieve(query, **settings)
        else:
            from lagotto.cli.documents import find_document

            document = find_document(kb, why_not, collection=how.collection)
            reason = kb.why_not(query, document.id, **settings)
            hits = reason.results
    yield {
        "query": query,
        "mode": mode_of(settings),
        "degraded": hits.degraded,
        "corrections": hits.stats.corrections,
        "results": ({**hit.model_dump(mode="json"), "citation": hit.citation} for hit in hits),
        **({} if reason is None else {"why_not": reason}),
    }
    from lagotto.cli.render import print_hit

    warn(hits.degraded)
    for word, terms in hits.stats.corrections.items() if explain else ():
        say(f"corrected: {word} -> {', '.join(terms)}")
    for word, others in hits.stats.synonyms.items() if explain else ():
        say(f"synonyms: {word} -> {', '.join(others)}")
    console = stdout()
    for hit in hits:
        print_hit(console, hit, query=query, explain=explain)
    if not hits:
        say("nothing was found")
    if reason is not None:
        say(str(reason))


def search(base: BaseOptions, how: SearchOptions, query: str = QUERY) -> Iterator[object]:
    """Find documents for a question. Each one is shown with the passages that support it."""
    settings = arguments(how)
    with open_for_a_question(base) as kb:
        bundle = kb.search(query, **settings)
    yield {"query": query, "mode": mode_of(settings), **dict(bundle)}
    from lagotto.cli.render import print_document

    warn(bundle.stats.degraded)
    console = stdout()
    for number, item in enumerate(bundle.candidates, 1):
        passages = [
            passage
            for passage in bundle.evidence
            if (passage.collection, passage.item_id) == (item.collection, item.item_id)
        ]
        print_document(console, item, passages, number=number, query=query)
    if not bundle.candidates:
        say("nothing was found")


Format = Literal["plain", "markdown", "xml"]


def context(
    base: BaseOptions,
    how: SearchOptions,
    query: str = QUERY,
    more: list[str] = option(
        "Another question that the same budget is for; repeatable.",
        default=[],
        flag="--and",
        metavar="QUERY",
    ),
    max_tokens: int | None = option("Token budget, markup included. [default: 12000]", min=1),
    fill: bool = option("Use the whole budget, also where evidence stops.", default=False),
    format: Format = option("Format of the context.", default="plain"),  # noqa: A002
    counter: str | None = option("Token counter, such as tiktoken:o200k_base.", metavar="NAME"),
) -> Iterator[object]:
    """Build a cited context for a prompt. The passages and their markup fit a token budget."""
    settings = arguments(how)
    with open_for_a_question(base) as kb:
        packing: Any = {"fill": fill or None, "format": format, "counter": counter}
        question: Any = {"queries": [query, *more]} if more else {"query": query}
        pack = kb.context(**question, max_tokens=max_tokens, **packing, **settings)
    yield pack
    warn(pack.trace.stats.degraded)
    if pack.context_pack:
        typer.echo(printable(pack.context_pack))
    for citation in pack.citations:
        say(f"[{citation.marker}] {citation.key}")
    say(f"{counted(pack.tokens, 'token')}, {counted(len(pack.citations), 'citation')}")
    for served in pack.trace.coverage:
        markers = "".join(f"[{marker}]" for marker in served.markers) or "nothing"
        say(f"{served.query}: {markers}, about {counted(served.tokens, 'token')}")
    for note in pack.trace.notes:
        if note not in pack.trace.stats.degraded:
            say(f"note: {note}")
