"""Options that several commands share.

A group of options is a dataclass: a command takes it as one argument, and the command line shows an
option for each of its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, Literal, get_type_hints

from typer import Option

from lagotto.cli.output import logging_to_stderr

DEFAULT_KB = "lagotto.db"
DEFAULT_COLLECTION = "default"
INTERRUPTED = 130
"""The exit code after Ctrl-C."""

Kb = Annotated[
    str,
    Option(
        "--kb",
        metavar="PATH",
        help="The knowledge base: a file, postgresql://HOST/DATABASE, or http://SERVER.",
        show_default=False,
    ),
]
EmbedderName = Annotated[
    str | None,
    Option(
        "--embedder",
        metavar="NAME",
        help="The embedding model of a new base; an existing base has its own.",
    ),
]
Verbose = Annotated[
    int,
    Option(
        "--verbose",
        "-v",
        count=True,
        help="Say what happens on stderr, and name skipped files; -vv says more.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, Option("--json", help="Print JSON.")]
Filters = Annotated[
    str | None,
    Option("--filters", metavar="JSON", help='Only documents that match: \'{"topic": "dogs"}\'.'),
]
InCollection = Annotated[
    str | None, Option("--collection", metavar="NAME", help="Only documents of this collection.")
]
Mode = Literal["hybrid", "semantic", "keyword"]
Pooling = Literal["chunk", "late"]

_KIND = Parameter.KEYWORD_ONLY


@dataclass(frozen=True, slots=True)
class BaseOptions:
    """The base and its embedder; defaults are the options given before the command."""

    kb: Kb = DEFAULT_KB
    embedder: EmbedderName = None


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """How files are read."""

    collection: Annotated[
        str, Option("--collection", metavar="NAME", help="The collection to add to.")
    ] = DEFAULT_COLLECTION
    include: Annotated[
        list[str], Option("--include", metavar="GLOB", help="Only files that match, such as *.md.")
    ] = field(default_factory=list)
    exclude: Annotated[
        list[str], Option("--exclude", metavar="GLOB", help="Skip files and folders that match.")
    ] = field(default_factory=list)
    everything: Annotated[
        bool,
        Option(
            "--everything",
            help="Read hidden, ignored, secret, vendored, minified and lock files too.",
        ),
    ] = False
    language: Annotated[
        str | None,
        Option("--language", metavar="TAG", help="The language, such as en. [default: detected]"),
    ] = None
    metadata: Annotated[
        list[str],
        Option("--metadata", metavar="KEY=VALUE", help="Metadata for every document."),
    ] = field(default_factory=list)
    ocr: Annotated[
        str | None,
        Option("--ocr", metavar="NAME", help="Read scanned PDF pages: tesseract, ocrmypdf, auto."),
    ] = None
    text_column: Annotated[
        list[str], Option("--text-column", metavar="NAME", help="JSONL, CSV: column of the text.")
    ] = field(default_factory=list)
    title_column: Annotated[
        str | None,
        Option("--title-column", metavar="NAME", help="JSONL, CSV: column of the title."),
    ] = None
    types: Annotated[
        list[str],
        Option(
            "--types",
            metavar="NAME=TYPE",
            help="JSONL, CSV: types of columns, such as year=integer,zip=text; `text` for all. "
            "[default: detected in CSV]",
        ),
    ] = field(default_factory=list)
    id_column: Annotated[
        str | None, Option("--id-column", metavar="NAME", help="JSONL, CSV: column of the id.")
    ] = None


@dataclass(frozen=True, slots=True)
class MakingOptions:
    """What a new base is made with; an existing one has its own, which `rebuild` changes."""

    chunker: Annotated[
        str | None,
        Option(
            "--chunker", metavar="NAME", help="Chunker of a new base, such as recursive:256/32."
        ),
    ] = None
    pooling: Annotated[
        Pooling | None, Option("--pooling", help="How a new base pools token vectors.")
    ] = None
    text_index: Annotated[
        str | None,
        Option(
            "--text-index",
            metavar="NAME",
            envvar="LAGOTTO_TEXT_INDEX",
            help="Full-text index of a new base: tantivy, fts5 or qdrant://HOST:6333.",
        ),
    ] = None
    vector_index: Annotated[
        str | None,
        Option(
            "--vector-index",
            metavar="NAME",
            envvar="LAGOTTO_VECTOR_INDEX",
            help="Vector index of a new base, such as qdrant://HOST:6333.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """What to search, and how; the same for `retrieve`, `search` and `context`."""

    top_k: Annotated[
        int | None,
        Option("--top-k", min=1, help="Number of passages. [default: 10, for search 12]"),
    ] = None
    mode: Annotated[
        Mode | None, Option("--mode", help="Vectors, full text, or both. [default: hybrid]")
    ] = None
    collection: InCollection = None
    filters: Filters = None
    preset: Annotated[
        str | None, Option("--preset", metavar="NAME", help="Start from a preset, see `presets`.")
    ] = None
    prefs: Annotated[
        str | None, Option("--prefs", metavar="FILE", help="Read settings from a TOML file.")
    ] = None
    set: Annotated[
        list[str],
        Option("--set", metavar="NAME=VALUE", help="Change one setting: scoring.blend=rrf."),
    ] = field(default_factory=list)
    reranker: Annotated[
        str | None,
        Option("--reranker", metavar="NAME", help="Rerank the best candidates, such as overlap."),
    ] = None


def flatten_groups(command: Callable[..., None]) -> Callable[..., None]:
    """`command` for Typer: each parameter that is a dataclass is replaced by its fields."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

    @wraps(command)
    def call(**values: Any) -> None:
        for name, group in groups.items():
            members = {field.name: values.pop(field.name) for field in fields(group)}
            values[name] = group(**members)
        command(**values)

    parameters: list[Parameter] = []
    for name, parameter in signature(command).parameters.items():
        if name in groups:
            parameters += _members(groups[name])
        else:
            parameters.append(parameter.replace(kind=_KIND, annotation=hints[name]))
    return _with_signature(call, parameters)


def with_log(command: Callable[..., None]) -> Callable[..., None]:
    """`command` with the option `--verbose`, which shows the log; it may have other uses for it."""
    parameters = dict(signature(command).parameters)
    is_own = "verbose" in parameters

    @wraps(command)
    def call(*, verbose: int, **values: Any) -> None:
        with logging_to_stderr(verbose):
            command(**values, **({"verbose": verbose} if is_own else {}))

    option = Parameter("verbose", _KIND, default=0, annotation=Verbose)
    return _with_signature(call, [*(parameters | {"verbose": option}).values()])


def _with_signature(
    call: Callable[..., None], parameters: Sequence[Parameter]
) -> Callable[..., None]:
    setattr(call, "__signature__", Signature(parameters))  # noqa: B010  (unknown to type checkers)
    call.__annotations__ = {item.name: item.annotation for item in parameters}
    return call


def _members(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(field.name, _KIND, default=_default(field), annotation=hints[field.name])
        for field in fields(group)
    ]


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return Parameter.empty if field.default is MISSING else field.default
