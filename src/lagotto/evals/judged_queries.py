"""Queries whose relevant documents or passages are known: a folder in BEIR's layout, judgements."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lagotto.base.judgements import RelevanceJudgement, relevant_documents
from lagotto.errors import ConfigError

QUERIES = "queries.jsonl"
SPANS = "spans.jsonl"
QRELS = ("qrels/test.tsv", "qrels.tsv")
"""Where relevance is, in a folder in BEIR's layout; the first that is there counts."""

DocumentName = tuple[str | None, str]
"""The collection of a document, None for any, and its id."""
MarkedSpan = tuple[str, int, int]
"""A document and the offsets of evidence in its text."""


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A query, and the relevance of the documents that were judged for it, above 0 if relevant."""

    text: str
    relevance: Mapping[DocumentName, int] = field(default_factory=dict)

    def relevant(self) -> list[DocumentName]:
        """The documents that should be found."""
        return [name for name, gain in self.relevance.items() if gain > 0]


@dataclass(frozen=True, slots=True)
class MarkedQuery:
    """A query, and the spans of documents that are evidence for its answer."""

    text: str
    spans: Sequence[MarkedSpan]


def read_judgements(judgements: Iterable[RelevanceJudgement]) -> list[JudgedQuery]:
    """The queries of judgements in a base, for which at least one document is relevant."""
    judged = (
        JudgedQuery(query, dict(documents.items()))
        for query, documents in relevant_documents(judgements).items()
    )
    return [query for query in judged if query.relevant()]


def read_beir(folder: Path) -> list[JudgedQuery]:
    """The judged queries of a folder in the layout of BEIR, in the order of their file.

    Those without a relevant document are left out. ConfigError if a file is missing or is not what
    it should be.
    """
    relevance = _relevance(folder)
    texts = _texts(folder)
    judged = (JudgedQuery(text, relevance.get(name, {})) for name, text in texts)
    return [query for query in judged if query.relevant()]


def read_spans(folder: Path) -> list[MarkedQuery]:
    """The queries of a folder with `spans.jsonl` beside `queries.jsonl`; none without that file.

    A line has `query_id`, `corpus_id` and `spans`, each with `start` and `end` in characters.
    """
    if not (folder / SPANS).is_file():
        return []
    spans: dict[str, list[MarkedSpan]] = defaultdict(list)
    for query, document, marked in _marked(folder / SPANS):
        spans[query] += [(document, start, end) for start, end in marked]
    return [MarkedQuery(text, spans[name]) for name, text in _texts(folder) if spans.get(name)]


def _texts(folder: Path) -> list[tuple[str, str]]:
    """The ids and the texts of queries."""
    found: dict[str, str] = {}
    for number, line in enumerate(_lines(folder / QUERIES), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            name, text = str(row["_id"]), row["text"].strip()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            text = ""
        if not text:
            raise ConfigError(
                f"{folder / QUERIES}: line {number} is no query; "
                'write {"_id": "1", "text": "..."}'
            )
        found[name] = text
    return list(found.items())


def _relevance(folder: Path) -> dict[str, dict[DocumentName, int]]:
    """By query id. The columns are query-id, corpus-id and score, separated by tabs."""
    found: dict[str, dict[DocumentName, int]] = defaultdict(dict)
    path = next((folder / name for name in QRELS if (folder / name).is_file()), None)
    if path is None and (folder / SPANS).is_file():  # a document with evidence is relevant
        for query, document, _ in _marked(folder / SPANS):
            found[query][None, document] = 1
        return found
    if path is None:
        raise ConfigError(f"{folder} has no {' or '.join(QRELS)}: which documents are relevant?")
    for number, row in enumerate(csv.DictReader(_lines(path), delimiter="\t"), 2):
        try:
            found[row["query-id"]][None, row["corpus-id"]] = int(row["score"])
        except (ValueError, KeyError, TypeError):
            raise ConfigError(
                f"{path}: line {number} should have query-id, corpus-id and score, a whole number"
            ) from None
    return found


def _marked(path: Path) -> Iterator[tuple[str, str, list[tuple[int, int]]]]:
    """The query, the document and the spans of each line."""
    for number, line in enumerate(_lines(path), 1):
        try:
            row = json.loads(line)
            spans = [(int(span["start"]), int(span["end"])) for span in row["spans"]]
            yield str(row["query_id"]), str(row["corpus_id"]), spans
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ConfigError(
                f"{path}: line {number} lacks query_id, corpus_id or spans with start and end"
            ) from None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8: byte {error.start} is invalid") from error
