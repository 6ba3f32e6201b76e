"""Options that several commands share.

A group of options is a dataclass: a command takes it as one argument, and the command line shows an
option for each of its fields.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, isgeneratorfunction, signature
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from typer import Argument, Option

from lagotto.cli.output import logging_to_stderr, print_json
from lagotto.errors import ConfigError

if TYPE_CHECKING:
    from lagotto.filters import Filter

DEFAULT_KB = "lagotto.db"
DEFAULT_COLLECTION = "default"
INTERRUPTED = 130
"""The exit code after Ctrl-C."""

Mode = Literal["hybrid", "semantic", "keyword"]
Pooling = Literal["chunk", "late"]

_KIND = Parameter.KEYWORD_ONLY


def key_value(pair: str, *, flag: str, example: str) -> tuple[str, Any]:
    """A `KEY=VALUE` pair; the value is JSON (`2024`, `true`, `["a"]`), or else text."""
    from lagotto.documents import json_value

    key, equals, text = pair.partition("=")
    if not key or not equals:
        raise ConfigError(f"{flag} {pair!r} is not KEY=VALUE; write {example}, for example")
    try:
        return key, json_value(json.loads(text))
    except (ValueError, RecursionError):  # not JSON, or a number that metadata can't hold
        return key, text


def parse_filters(filters: Sequence[str] | None) -> Filter | None:
    """All filters of `--filter` together, None without any."""
    if not filters:
        return None
    from lagotto.filters import And, parse_filter

    parts = [
        text if text[:1] == "{" else dict([key_value(text, flag="--filter", example="topic=dogs")])
        for text in map(str.strip, filters)
    ]
    conditions = [parse_filter(part) for part in parts]
    return conditions[0] if len(conditions) == 1 else And(*conditions)


def option(help: str, *, default: Any = None, flag: str = "", **settings: Any) -> Any:  # noqa: A002
    """An option, as the default of a field or parameter, of which it has the name unless `flag` is.

    Several flags are separated by blanks. `settings` are those of Typer's options.
    """
    metadata = {"kind": Option, "flags": flag.split(), "help": help, **settings}
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def argument(help: str, *, default: Any = MISSING, **settings: Any) -> Any:  # noqa: A002
    """A positional argument, as the default of a parameter; needed unless it has a default."""
    return field(default=default, metadata={"kind": Argument, "help": help, **settings})


KB = option(
    "The knowledge base: a file, postgresql://HOST/DATABASE, or http://SERVER.",
    metavar="PATH",
    default=DEFAULT_KB,
    show_default=False,
)
EMBEDDER = option(
    "The embedding model of a new base; an existing base has its own.", metavar="NAME"
)
VERBOSE = option(
    "Say what happens on stderr, and name skipped files; -vv says more.",
    flag="--verbose -v",
    default=0,
    count=True,
    show_default=False,
)
AS_JSON = option("Print JSON.", flag="--json", default=False)
FILTERS = option(
    "Only documents that match: topic=dogs, or a filter as JSON (repeatable).",
    flag="--filter --filters",
    metavar="KEY=VALUE|JSON",
)
IN_COLLECTION = option("Only documents of this collection.", metavar="NAME")


@dataclass(frozen=True, slots=True)
class BaseOptions:
    """The base and its embedder; defaults are the options given before the command."""

    kb: str = copy(KB)
    embedder: str | None = copy(EMBEDDER)


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """How files are read."""

    collection: str = option(
        "The collection to add to.", metavar="NAME", default=DEFAULT_COLLECTION
    )
    include: list[str] = option("Only files that match, such as *.md.", metavar="GLOB", default=[])
    exclude: list[str] = option("Skip files and folders that match.", metavar="GLOB", default=[])
    everything: bool = option(
        "Read hidden, ignored, secret, vendored, minified and lock files too.",
        flag="--no-ignore",
        default=False,
    )
    language: str | None = option("The language, such as en. [default: detected]", metavar="TAG")
    metadata: list[str] = option("Metadata for every document.", metavar="KEY=VALUE", default=[])
    id_from: str | None = option(
        "Ids: `path` in the folder, or front-matter:KEY. [default: a hash]", metavar="SOURCE"
    )
    ocr: str | None = option("Read scanned PDF pages: tesseract, ocrmypdf, auto.", metavar="NAME")
    text_column: list[str] = option("JSONL, CSV: column of the text.", metavar="NAME", default=[])
    title_column: str | None = option("JSONL, CSV: column of the title.", metavar="NAME")
    types: list[str] = option(
        "JSONL, CSV: types of columns, such as year=integer,zip=text; `text` for all. "
        "[default: detected in CSV]",
        metavar="NAME=TYPE",
        default=[],
    )
    id_column: str | None = option("JSONL, CSV: column of the id.", metavar="NAME")


@dataclass(frozen=True, slots=True)
class MakingOptions:
    """What a new base is made with; an existing one has its own, which `rebuild` changes."""

    chunker: str | None = option("Chunker of a new base, such as section:256/32.", metavar="NAME")
    pooling: Pooling | None = option("How a new base pools token vectors.")
    text_index: str | None = option(
        "Full-text index of a new base: tantivy, fts5 or qdrant://HOST:6333.",
        metavar="NAME",
        envvar="LAGOTTO_TEXT_INDEX",
    )
    vector_index: str | None = option(
        "Vector index of a new base, such as qdrant://HOST:6333.",
        metavar="NAME",
        envvar="LAGOTTO_VECTOR_INDEX",
    )


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """What to search, and how; the same for `retrieve`, `search` and `context`."""

    top_k: int | None = option(
        "Number of passages. [default: 10, for search 12]", flag="--top-k -k", min=1
    )
    mode: Mode | None = option("Vectors, full text, or both. [default: hybrid]")
    collection: str | None = copy(IN_COLLECTION)
    filters: list[str] | None = copy(FILTERS)
    preset: str | None = option("Start from a preset, see `presets`.", metavar="NAME")
    prefs: str | None = option("Read settings from a TOML file.", metavar="FILE")
    set: list[str] = option(
        "Change one setting: scoring.blend=rrf.", metavar="NAME=VALUE", default=[]
    )
    reranker: str | None = option(
        "Rerank the best candidates, such as auto; see `models`.", metavar="NAME"
    )


def for_typer(command: Callable[..., Iterable[object] | None]) -> Callable[..., None]:
    """`command` with parameters that Typer understands, and the option `--verbose`.

    Options are annotated, a dataclass is replaced by its fields, and what is logged is shown.
    A command that yields its answer before it shows it has the option `--json`: the answer is
    printed, and the command ends there. It may have other uses for `verbose` and `as_json`.
    """
    hints = get_type_hints(command)
    own = signature(command).parameters
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

    @wraps(command)
    def call(*, verbose: int = 0, as_json: bool = False, **values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{item.name: values.pop(item.name) for item in fields(group)})
        options = {"verbose": verbose, "as_json": as_json}
        values |= {name: value for name, value in options.items() if name in own}
        with logging_to_stderr(verbose):
            for answer in command(**values) or ():
                if as_json:
                    print_json(answer)
                    break

    parameters: dict[str, Parameter] = {}
    for name, parameter in own.items():
        if name in groups:
            members = get_type_hints(groups[name])
            entries = [
                _parameter(each.name, members[each.name], each) for each in fields(groups[name])
            ]
        elif isinstance(parameter.default, Field):
            entries = [_parameter(name, hints[name], parameter.default)]
        else:
            entries = [parameter.replace(kind=_KIND, annotation=hints[name])]
        parameters |= {each.name: each for each in entries}
    if isgeneratorfunction(command):
        parameters["as_json"] = _parameter("as_json", bool, AS_JSON)
    verbose_option = parameters.pop("verbose", _parameter("verbose", int, VERBOSE))
    parameters["verbose"] = verbose_option  # shown behind the others
    setattr(call, "__signature__", Signature([*parameters.values()]))  # noqa: B010
    call.__annotations__ = {item.name: item.annotation for item in parameters.values()}
    return call


def _parameter(name: str, hint: Any, item: Field[Any]) -> Parameter:
    """A field, or the default of a parameter, as a parameter for Typer."""
    settings = dict(item.metadata)
    kind, flags = settings.pop("kind", None), settings.pop("flags", ())
    if kind is Option and not flags:
        flags = [f"--{name.replace('_', '-')}"]
    if kind is not None:
        hint = Annotated[hint, kind(*flags, **settings)]
    if item.default_factory is not MISSING:
        return Parameter(name, _KIND, default=item.default_factory(), annotation=hint)
    default = Parameter.empty if item.default is MISSING else item.default
    return Parameter(name, _KIND, default=default, annotation=hint)
