"""Queries whose relevant documents are known: a folder in BEIR's layout, judgements of a base."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
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


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A query, and the relevance of the documents that were judged for it, above 0 if relevant."""

    text: str
    relevance: Mapping[DocumentName, int] = field(default_factory=dict)

    def relevant(self) -> list[DocumentName]:
        """The documents that should be found."""
        return [name for name, gain in self.relevance.items() if gain > 0]


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
    texts = texts_of(folder)
    found = [
        JudgedQuery(text, relevance[name]) for name, text in texts.items() if name in relevance
    ]
    return [query for query in found if query.relevant()]


def texts_of(folder: Path) -> dict[str, str]:
    """The queries of a folder by id."""
    return dict(_texts(folder / QUERIES))


def _texts(path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines_of(path), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            name, text = str(row["_id"]), row["text"].strip()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            text = ""
        if not text:
            raise ConfigError(
                f'{path}: line {number} is no query; write {{"_id": "1", "text": "..."}}'
            )
        yield name, text


def _relevance(folder: Path) -> dict[str, dict[DocumentName, int]]:
    """By query id. The columns are query-id, corpus-id and score, separated by tabs."""
    path = next((folder / name for name in QRELS if (folder / name).is_file()), None)
    if path is None and (folder / SPANS).is_file():
        return _relevance_of_spans(folder)
    if path is None:
        raise ConfigError(f"{folder} has no {' or '.join(QRELS)}: which documents are relevant?")
    found: dict[str, dict[DocumentName, int]] = {}
    for number, row in enumerate(csv.DictReader(lines_of(path), delimiter="\t"), 2):
        try:
            found.setdefault(row["query-id"], {})[None, row["corpus-id"]] = int(row["score"])
        except (ValueError, KeyError, TypeError):
            raise ConfigError(
                f"{path}: line {number} should have query-id, corpus-id and score, a whole number"
            ) from None
    return found


def _relevance_of_spans(folder: Path) -> dict[str, dict[DocumentName, int]]:
    """By query id: a document with evidence is relevant."""
    found: dict[str, dict[DocumentName, int]] = {}
    for line in lines_of(folder / SPANS):
        try:
            row = json.loads(line)
            found.setdefault(str(row["query_id"]), {})[None, str(row["corpus_id"])] = 1
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ConfigError(f"{folder / SPANS}: no query_id and corpus_id: {line[:80]}") from None
    return found


def lines_of(path: Path) -> list[str]:
    """The lines of a file; ConfigError if it can't be read."""
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8: byte {error.start} is invalid") from error
