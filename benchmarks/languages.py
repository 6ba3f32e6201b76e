"""What the languages of a base do to the ranking of words.

    python benchmarks/languages.py unknown DATASET... [--queries 1000]
    python benchmarks/languages.py mixed DATASET... [--queries 1000] [--cache FOLDER]

`unknown` takes the language from a random 2, 10 and 50 % of the documents, and shows nDCG@10 of the
text leg with how it differs from that of the base in which all languages are known. `mixed` puts
all data sets, each in a language of its own, into one base, and shows for the queries of each how
text leg and hybrid search differ from those over that data set alone; texts have to be in a folder
whose name ends in the language, such as `xquad_ru`. A text of another data set with the id of a
relevant one is taken for its translation, which answers the question too: it is left out of the
ranking. Intervals are of 95 %, by paired bootstrap.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np

from beir import Judgements, mean, read_jsonl, read_questions
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document
from lagotto.embedders import CachedEmbedder, Embedder, create_embedder
from lagotto.testing.hash_embedder import HashEmbedder
from places import temporary_location
from quality import SYSTEMS, Rankings, gains_of, interval, rank

SHARES = (0.0, 0.02, 0.1, 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("action", choices=["unknown", "mixed"])
    parser.add_argument("datasets", nargs="+", type=Path)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    if options.action == "mixed":
        asyncio.run(mixed(options.datasets, options))
        return
    for dataset in options.datasets:
        asyncio.run(unknown(dataset, options))


async def unknown(dataset: Path, options: argparse.Namespace) -> None:
    """The text leg with some languages unknown."""
    asked, judged = questions(dataset, options.queries)
    documents = read_documents(dataset, "en")
    first: list[float] = []
    for share in SHARES:
        chosen = set(random.Random(0).sample(range(len(documents)), int(share * len(documents))))
        given = [
            document.model_copy(update={"language": None}) if number in chosen else document
            for number, document in enumerate(documents)
        ]
        async with filled(given, HashEmbedder()) as base:
            gains = gains_of(await rank(base, asked, SYSTEMS["text"]), judged)
        first = first or gains
        _print(f"{dataset.name}, {share:.0%} unknown", gains, first)


async def mixed(datasets: Sequence[Path], options: argparse.Namespace) -> None:
    """All data sets in one base, against each alone."""
    embedder: Embedder = create_embedder("minilm")
    if options.cache:
        embedder = CachedEmbedder(embedder, options.cache)
    sets = {path.name: read_documents(path, path.name.rpartition("_")[2]) for path in datasets}
    bases = {**sets, "together": [item for documents in sets.values() for item in documents]}
    gains: dict[tuple[str, str, str], list[float]] = {}
    for name, documents in bases.items():
        async with filled(documents, embedder) as base:
            for path in datasets:
                if name not in (path.name, "together"):
                    continue
                asked, judged = questions(path, options.queries)
                for system in ("text", "hybrid"):
                    rankings = await rank(base, asked, SYSTEMS[system])
                    fair = without_translations(rankings, judged)
                    gains[name, path.name, system] = gains_of(fair, judged)
    for (name, queries, system), found in gains.items():
        _print(f"{system}, queries of {queries}, {name}", found, gains[queries, queries, system])


def without_translations(rankings: Rankings, judged: Judgements) -> Rankings:
    """The rankings without the texts of other data sets that have the id of a relevant one."""
    fair = {}
    for query, ranking in rankings.items():
        relevant = {name: name.rpartition("/")[2] for name in judged[query]}
        answers = set(relevant.values())
        fair[query] = [
            name for name in ranking if name in relevant or name.rpartition("/")[2] not in answers
        ]
    return fair


def questions(dataset: Path, most: int) -> tuple[dict[str, str], Judgements]:
    """The queries of a data set, judged by the ids that `read_documents` gives."""
    asked, judged = read_questions(dataset, most)
    return asked, {
        query: {f"{dataset.name}/{name}": gain for name, gain in found.items()}
        for query, found in judged.items()
    }


def read_documents(dataset: Path, language: str) -> list[Document]:
    """The documents of a data set, all in one language."""
    return [
        Document(
            id=f"{dataset.name}/{row['_id']}",
            title=row.get("title") or None,
            text=row["text"],
            language=language,
        )
        for row in read_jsonl(dataset / "corpus.jsonl")
    ]


@asynccontextmanager
async def filled(
    documents: Sequence[Document], embedder: Embedder
) -> AsyncIterator[AsyncKnowledgeBase]:
    """A base with these documents and their languages, none of which is detected."""
    with temporary_location("sqlite") as location:
        async with AsyncKnowledgeBase(location, embedder=embedder) as base:
            ingest = await base._ingest(None)
            await ingest.run(iter(documents))
            yield base


def _print(what: str, gains: list[float], others: list[float]) -> None:
    low, middle, high = interval(np.subtract(gains, others))
    difference = f"{middle:+.4f} [{low:+.4f}, {high:+.4f}]"
    print(f"{what:52} {mean(gains):8.4f}   {difference}", flush=True)


if __name__ == "__main__":
    main()
