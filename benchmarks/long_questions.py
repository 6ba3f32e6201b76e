"""Make a data set of long questions: several questions about the same document become one.

    python benchmarks/long_questions.py DATASET TARGET [--join 4] [--queries 300]

DATASET is a folder in BEIR's layout; TARGET becomes another one, with the same documents. People
who describe what they look for at length say what matters several times; so do such questions.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
from pathlib import Path

from beir import read_jsonl, read_judgements


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--join", type=int, default=4)
    parser.add_argument("--queries", type=int, default=300)
    options = parser.parse_args()
    texts = {row["_id"]: row["text"] for row in read_jsonl(options.dataset / "queries.jsonl")}
    about: dict[str, list[str]] = {}
    for query, judged in read_judgements(options.dataset / "qrels.tsv").items():
        for document, gain in judged.items():
            if gain > 0:
                about.setdefault(document, []).append(texts[query])
    chance = random.Random(3)
    documents = [name for name, found in about.items() if len(found) >= options.join]
    chosen = chance.sample(documents, min(options.queries, len(documents)))
    options.target.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(options.dataset / "corpus.jsonl", options.target / "corpus.jsonl")
    queries = [
        {"_id": f"long-{name}", "text": " ".join(chance.sample(about[name], options.join))}
        for name in chosen
    ]
    lines = [json.dumps(row, ensure_ascii=False) for row in queries]
    (options.target / "queries.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = ["query-id\tcorpus-id\tscore", *(f"long-{name}\t{name}\t1" for name in chosen)]
    (options.target / "qrels.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
