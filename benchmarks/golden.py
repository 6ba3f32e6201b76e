"""Whether a change leaves every answer as it was: searches recorded before, and compared after.

    python benchmarks golden record FILE --datasets DATASET... [--cache FOLDER]
    python benchmarks golden compare FILE --datasets DATASET... [--cache FOLDER]

About 2,000 searches: the documents of the demo, once with parents, and every data set (folders in
BEIR's layout), each on a file with tantivy, on a file with FTS5, on PostgreSQL and on a file with
indexes on Qdrant; lists, bundles and packs; all presets, late and mixed chunking, filters, misspelt
and quoted queries, PostgreSQL's own ranking. Qdrant builds its graph in several threads, so ranks
of its semantic leg may differ from run to run. A recording has whole answers: ids, order, scores,
breakdowns, citations, degradations. `compare` demands equal answers, numbers within 1e-6, prints
each difference and exits with 1 if there is one. `--places` and `--only` choose a part. `--cache`
keeps vectors for the next run.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import math
import random
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import beir
from beir import misspelt, read_questions
from lagotto import AsyncKnowledgeBase, Results, RetrievalPrefs
from lagotto.demo import corpus, questions
from lagotto.readers import Columns
from places import temporary_place

Settings = dict[str, Any]
Answers = dict[str, Any]

PLACES = ("sqlite", "sqlite/fts5", "postgresql", "sqlite+qdrant")
QUERIES = 4
TOLERANCE = 1e-6
LOCAL_RERANKER = {"rerank": {"reranker": "overlap"}}
"""Instead of a language model."""
CASES: dict[str, tuple[str, Settings]] = {
    "default": ("retrieve", {"explain": "candidates"}),
    "bundle": ("search", {}),
    "pack": ("context", {"max_tokens": 1500}),
    "small pack": ("context", {"max_tokens": 200}),
    "misspelt": ("retrieve", {}),
    "quoted": ("retrieve", {}),
    "keyword": ("retrieve", {"mode": "keyword"}),
    "semantic": ("retrieve", {"mode": "semantic", "diversity": {"per_document": 1, "mmr": 0.7}}),
    "rrf": ("retrieve", {"scoring": {"blend": "rrf"}, "parents": {"mode": "attach"}}),
    "few": (
        "retrieve",
        {"filters": {"$or": [{"row": {"$lt": 60}}, {"title": {"$contains": "a"}}]}},
    ),
    "most": ("search", {"filters": {"$not": {"row": {"$in": [1, 2, 3, 5, 8]}}}}),
    "feedback": ("retrieve", {"expansion": {"feedback": True, "answers": True}}),
    "oasis": ("retrieve", {"prefs": "oasis", **LOCAL_RERANKER}),
    "contextpack": ("context", {"prefs": "contextpack", **LOCAL_RERANKER}),
    "kotlin-rag": ("retrieve", {"prefs": "kotlin-rag"}),
    "local-rag": ("retrieve", {"prefs": "local-rag"}),
    "aiblox": ("search", {"prefs": "aiblox"}),
    "one statement": ("retrieve", {"fts": {"rank_func": "ts_rank_cd"}, "strategy": "statement"}),
    "mixed": ("retrieve", {"chunking": {"strategy": "mixed", "max_chunk_tokens": 64}}),
}
"""A verb and its settings, by the name of the case."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("action", choices=["record", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--datasets", nargs="*", type=Path, default=[])
    parser.add_argument("--places", nargs="+", choices=PLACES, default=PLACES)
    parser.add_argument("--only", default="", help="corpora whose names have this part")
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        options.cache = options.cache or Path(folder)
        answers = asyncio.run(search_all(options))
    if options.action == "record":
        with gzip.open(options.file, "wt", encoding="utf-8") as file:
            json.dump(answers, file)
        print(f"{len(answers)} answers recorded")
        return 0
    with gzip.open(options.file, "rt", encoding="utf-8") as file:
        return report(json.load(file), answers)


async def search_all(options: argparse.Namespace) -> Answers:
    """The answers of every case, by corpus, place, case and query."""
    answers: Answers = {}
    for name, documents, asked, settings in corpora(options):
        for place in options.places:
            async with filled(place, documents, options.cache, settings) as base:
                for key, answer in [pair async for pair in searches(base, asked)]:
                    answers[f"{name}, {place}, {key}"] = answer
            print(f"{name}, {place}: {len(answers)} answers", file=sys.stderr, flush=True)
    return answers


def corpora(options: argparse.Namespace) -> Iterator[tuple[str, Path, list[str], Settings]]:
    """Names, files, queries, and how a base for them is made."""
    demo = options.cache / "demo"  # ids of documents depend on their path
    with corpus() as folder:
        shutil.copytree(folder, demo, dirs_exist_ok=True)
    asked = [question.question for question in questions()][:QUERIES]
    for name, chunker in {"demo": None, "demo with parents": "parent-child"}.items():
        if options.only in name:
            yield name, demo, asked, {"chunker": chunker}
    for dataset in options.datasets:
        if options.only in dataset.name:
            asked = list(read_questions(dataset, QUERIES)[0].values())
            yield dataset.name, dataset / "corpus.jsonl", asked, {}


@asynccontextmanager
async def filled(
    place: str, documents: Path, cache: Path, settings: Settings
) -> AsyncIterator[AsyncKnowledgeBase]:
    """A base with the documents, opened anew, by when all its indexes are built."""
    store, _, text_index = place.partition("/")
    with ExitStack() as stack:
        made = stack.enter_context(temporary_place(store))
        indexes = made.indexes or ({"text_index": text_index} if text_index else {})

        def base() -> AsyncKnowledgeBase:
            embedder = beir.embedder("minilm", cache)
            return AsyncKnowledgeBase(made.location, embedder=embedder, **indexes, **settings)

        async with base() as new:
            await new.add(documents, columns=Columns(id="_id"))
        async with base() as complete:
            yield complete


async def searches(
    base: AsyncKnowledgeBase, asked: list[str]
) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """Every case with every query: its key and its answer as JSON."""
    chance = random.Random(1)
    for case, (verb, settings) in CASES.items():
        settings = dict(settings)
        prefs = settings.pop("prefs", None)
        given = {"prefs": RetrievalPrefs.preset(prefs)} if prefs else {}
        for number, query in enumerate(asked):
            text = {"misspelt": misspelt, "quoted": quoted}.get(case, lambda text, _: text)
            answer = await getattr(base, verb)(text(query, chance), **given, **settings)
            yield f"{case}, {number}", as_json(answer)


def quoted(query: str, chance: random.Random) -> str:
    """Two neighbouring words in quotation marks."""
    words = query.split()
    first = chance.randrange(max(1, len(words) - 1))
    return " ".join(
        [*words[:first], f'"{" ".join(words[first : first + 2])}"', *words[first + 2 :]]
    )


def as_json(answer: Any) -> dict[str, Any]:
    """All of an answer but its times."""
    if isinstance(answer, Results):
        hits = [{**hit.model_dump(mode="json"), "citation": hit.citation} for hit in answer]
        return {"hits": hits, "stats": _timeless(answer.stats.model_dump(mode="json"))}
    whole: dict[str, Any] = answer.model_dump(mode="json")
    holder = whole.get("trace", whole)
    holder["stats"] = _timeless(holder["stats"] or {})
    return whole


def _timeless(stats: dict[str, Any]) -> dict[str, Any]:
    return {**stats, "timing_ms": {}}


def report(before: Answers, after: Answers) -> int:
    """Print what differs; the exit status."""
    keys = [key for key in before if key in after]
    differing = 0
    for key in keys:
        if found := next(differences(before[key], after[key]), None):
            differing += 1
            print(f"{key}: {found}")
    print(f"{len(keys)} answers compared, {len(before) - len(keys)} left out, {differing} differ")
    return int(differing > 0 or not keys)


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Where two answers differ; numbers may by as much as the tolerance."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in sorted({*before, *after}):
            if (name in before) != (name in after) and not (before.get(name) or after.get(name)):
                continue  # one version lacks the field, and it says nothing
            yield from differences(before.get(name), after.get(name), f"{path}.{name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, pair in enumerate(zip(before, after, strict=True)):
            yield from differences(*pair, f"{path}[{index}]")
    elif isinstance(before, float) or isinstance(after, float):
        numbers = isinstance(before, int | float) and isinstance(after, int | float)
        if not numbers or not math.isclose(before, after, rel_tol=0, abs_tol=TOLERANCE):
            yield f"{path}: {before!r} -> {after!r}"
    elif before != after:
        yield f"{path}: {_short(before)} -> {_short(after)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 200 else f"{text[:200]}... ({len(text)} characters)"


if __name__ == "__main__":
    sys.exit(main())
