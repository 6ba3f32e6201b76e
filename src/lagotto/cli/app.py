"""All commands, and the options before them. Commands import what they need when they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from lagotto import __version__
from lagotto.cli.add import add
from lagotto.cli.context import context as pack_context
from lagotto.cli.copy import copy
from lagotto.cli.demo import demo
from lagotto.cli.doctor import doctor
from lagotto.cli.info import info
from lagotto.cli.list import list_documents
from lagotto.cli.option_groups import flatten_groups
from lagotto.cli.options import DEFAULT_KB
from lagotto.cli.presets import presets
from lagotto.cli.rebuild import rebuild
from lagotto.cli.remove import remove
from lagotto.cli.retrieve import retrieve
from lagotto.cli.search import search
from lagotto.cli.show import show
from lagotto.cli.sync import sync

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Hybrid retrieval for RAG: add documents, search them, get cited evidence.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lagotto {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    kb: Annotated[
        str,
        typer.Option(
            "--kb",
            metavar="PATH",
            envvar="LAGOTTO_KB",
            help="The knowledge base: a file, or postgresql://HOST/DATABASE.",
        ),
    ] = DEFAULT_KB,
    embedder: Annotated[
        str | None,
        typer.Option(
            "--embedder",
            metavar="NAME",
            envvar="LAGOTTO_EMBEDDER",
            help="The embedding model: minilm, minilm-int8, onnx:FOLDER, openai:MODEL.",
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Pass options before the command on, as defaults of the same options behind it."""
    defaults = {name: {"kb": kb, "embedder": embedder} for name in COMMANDS}
    source = context.get_parameter_source("kb")
    if source is None or source.name != "COMMANDLINE":
        del defaults["demo"]["kb"]  # the demo writes to your own base only if you name it
    context.default_map = defaults


COMMANDS: dict[str, Callable[..., None]] = {
    "add": add,
    "sync": sync,
    "retrieve": retrieve,
    "search": search,
    "context": pack_context,
    "list": list_documents,
    "show": show,
    "remove": remove,
    "rebuild": rebuild,
    "info": info,
    "presets": presets,
    "copy": copy,
    "doctor": doctor,
    "demo": demo,
}

for name, command in COMMANDS.items():
    app.command(name)(flatten_groups(command))
