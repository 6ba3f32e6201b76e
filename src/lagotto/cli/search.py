"""`search`: the documents that may hold the answer, with the passages that support it."""

from __future__ import annotations

from lagotto.cli.connect import open_for_a_question
from lagotto.cli.options import AsJson, BaseOptions, SearchOptions
from lagotto.cli.output import print_json, say, stdout, warn
from lagotto.cli.query import Query, arguments, mode_of


def search(query: Query, base: BaseOptions, how: SearchOptions, as_json: AsJson = False) -> None:
    """Find documents for a question. Each one is shown with the passages that support it."""
    given = arguments(how)
    with open_for_a_question(base) as kb:
        bundle = kb.search(query, **given)
    if as_json:
        print_json({"query": query, "mode": mode_of(given), **bundle.model_dump(mode="json")})
        return
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
