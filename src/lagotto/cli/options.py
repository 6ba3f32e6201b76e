"""What can be said on the command line, and by which commands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from typer import Option

DEFAULT_KB = "lagotto.db"
DEFAULT_COLLECTION = "default"
DEFAULT_EMBEDDER = "minilm"
INTERRUPTED = 130
"""The exit code after Ctrl-C."""

Kb = Annotated[
    str,
    Option(
        "--kb",
        metavar="PATH",
        help="The base: a file, or postgresql://HOST/DATABASE.",
        show_default=False,
    ),
]
EmbedderName = Annotated[
    str,
    Option("--embedder", metavar="NAME", help="What makes vectors.", show_default=False),
]
AsJson = Annotated[bool, Option("--json", help="Print JSON, and nothing else, on stdout.")]
Filters = Annotated[
    str | None,
    Option("--filters", metavar="JSON", help='Only what matches, such as \'{"topic": "dogs"}\'.'),
]
InCollection = Annotated[str | None, Option("--collection", metavar="NAME")]
Mode = Literal["hybrid", "semantic", "keyword"]
TextIndex = Literal["tantivy", "fts5"]


@dataclass(frozen=True, slots=True)
class BaseOptions:
    """Which base, and how it makes vectors. The app fills in what stood before the command."""

    kb: Kb = DEFAULT_KB
    embedder: EmbedderName = DEFAULT_EMBEDDER


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """How files become documents."""

    collection: Annotated[
        str, Option("--collection", metavar="NAME", help="Filters the documents go.")
    ] = DEFAULT_COLLECTION
    include: Annotated[
        list[str], Option("--include", metavar="GLOB", help="Only such files in folders.")
    ] = field(default_factory=list)
    exclude: Annotated[
        list[str], Option("--exclude", metavar="GLOB", help="No such files or folders.")
    ] = field(default_factory=list)
    language: Annotated[
        str | None, Option("--language", metavar="TAG", help="Such as en; found out if left out.")
    ] = None
    metadata: Annotated[
        list[str],
        Option("--metadata", metavar="KEY=VALUE", help="For every document; VALUE may be JSON."),
    ] = field(default_factory=list)
    text_column: Annotated[
        list[str], Option("--text-column", metavar="NAME", help="JSONL and CSV: the text.")
    ] = field(default_factory=list)
    title_column: Annotated[
        str | None, Option("--title-column", metavar="NAME", help="JSONL and CSV: the title.")
    ] = None
    id_column: Annotated[
        str | None, Option("--id-column", metavar="NAME", help="JSONL and CSV: the id.")
    ] = None


@dataclass(frozen=True, slots=True)
class MakingOptions:
    """How a base is made."""

    chunker: Annotated[
        str, Option("--chunker", metavar="NAME", help="What cuts documents into chunks.")
    ] = "recursive:256/32"
    text_index: Annotated[
        TextIndex | None,
        Option("--text-index", help="For a new base: beside the file, or inside it."),
    ] = None


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How to search."""

    preset: Annotated[
        str | None, Option("--preset", metavar="NAME", help="Search as a known design does.")
    ] = None
    prefs: Annotated[
        str | None, Option("--prefs", metavar="FILE", help="Preferences from a TOML file.")
    ] = None
    set: Annotated[
        list[str],
        Option("--set", metavar="NAME=VALUE", help="One preference, such as scoring.blend=rrf."),
    ] = field(default_factory=list)
    reranker: Annotated[
        str | None, Option("--reranker", metavar="NAME", help="What reads the best passages again.")
    ] = None
