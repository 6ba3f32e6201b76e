"""`info`: the size of a base and what it was made with."""

from __future__ import annotations

from lagotto.cli.connect import open_existing
from lagotto.cli.options import AsJson, BaseOptions
from lagotto.cli.output import one_line, print_json, stdout, warn


def info(base: BaseOptions, as_json: AsJson = False) -> None:
    """Show the size of a knowledge base and what it was made with."""
    with open_existing(base) as kb:
        found = kb.info()
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    from rich.filesize import decimal

    from lagotto.cli.render import print_fields

    collections = (f"{name} ({count})" for name, count in found.collections.items())
    fields = {
        "base": found.location,
        "documents": str(found.documents),
        "chunks": str(found.chunks),
        "collections": ", ".join(collections),
        "languages": ", ".join(found.languages),
        "embedder": found.model_id or "",
        "chunker": found.chunker_id or "",
        "size": decimal(found.bytes_on_disk),
    }
    print_fields(stdout(), {name: one_line(value) for name, value in fields.items()})
    warn(found.degraded)
