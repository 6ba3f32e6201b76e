"""The commands, and the options before them. A command's module is imported when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from lagotto import __version__
from lagotto._internal.registry import did_you_mean
from lagotto.cli.options import DEFAULT_KB, VERBOSE, for_typer, option

COMMANDS = {
    **dict.fromkeys(("add", "sync", "watch"), "ingest"),
    **dict.fromkeys(("retrieve", "search", "context"), "search"),
    **dict.fromkeys(("list", "show", "remove"), "documents"),
    **dict.fromkeys(("rebuild", "info", "synonyms"), "maintenance"),
    **dict.fromkeys(("presets", "models"), "models"),
    **dict.fromkeys(("copy", "export", "import"), "maintenance"),
    **{"eval": "eval", "doctor": "maintenance"},
    **dict.fromkeys(("serve", "mcp", "keys"), "serve"),
    "demo": "demo",
}
"""The module of each command, in the order of the help."""
FUNCTIONS = {"list": "list_documents", "import": "import_documents", "eval": "evaluate"}
"""Those that don't have the name of their command."""


class Commands(TyperGroup):
    """The commands in the order of the table."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"lagotto.cli.{COMMANDS[cmd_name]}")
        function = getattr(module, FUNCTIONS.get(cmd_name, cmd_name))
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(cmd_name)(for_typer(function))
        command = typer.main.get_command(alone)
        assert isinstance(command, TyperCommand)
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that `args` begin with; an unknown one is refused with the nearest name."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            ctx.fail(f"No such command {name!r}{did_you_mean(name, COMMANDS)}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Hybrid retrieval for RAG: add documents, search them, get cited evidence.",
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"lagotto {__version__}")
        raise typer.Exit


def options(
    context: typer.Context,
    kb: str = option(
        "The knowledge base: a file, postgresql://HOST/DATABASE, or http://SERVER.",
        metavar="PATH",
        envvar="LAGOTTO_KB",
        default=DEFAULT_KB,
    ),
    embedder: str | None = option(
        "The embedding model: minilm, gte-small, onnx:FOLDER, openai:MODEL and others.",
        metavar="NAME",
        envvar="LAGOTTO_EMBEDDER",
    ),
    verbose: int = VERBOSE,
    version: bool = option(
        "Show the version.", callback=_print_version, is_eager=True, default=False
    ),
) -> None:
    """Pass options before the command on, as defaults of the same options behind it."""
    values = {"kb": kb, "embedder": embedder, "verbose": verbose}
    defaults = {name: dict(values) for name in COMMANDS}
    source = context.get_parameter_source("kb")
    if source is None or source.name != "COMMANDLINE":
        del defaults["demo"]["kb"]  # the demo writes to your own base only if you name it
    context.default_map = defaults


app.callback()(for_typer(options))
