"""Whether hits are cited by the right page and section, on the documents of a folder.

    python benchmarks/citations.py FOLDER [--questions 150] [--chunker ID] [--cache FOLDER] [--json]

FOLDER may have a `questions.jsonl`: the name of a file, a question, and a wording of that file
which answers it, as `filings.py` writes it. Without one, questions are made: sentences drawn at
random, of which every other content word is left out. An answer stands where its wording is in the
text. A hit is right if it is on that page or, in a document without pages, holds the wording. Its
section is right if it is the last heading before the wording. A chunk starts in mid-sentence if
neither a sentence nor a heading, a paragraph, a row, a list item or a line of code starts there,
and no table or list ends there.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lagotto import Document, KnowledgeBase
from lagotto.chunkers import CHUNKERS, DEFAULT_CHUNKER
from lagotto.documents import Chunk
from lagotto.embedders import CachedEmbedder, Embedder, create_embedder
from lagotto.readers import load
from lagotto.results import RetrievalResult
from lagotto.terms import keywords

TOP_K = 5
SENTENCE = re.compile(r"(?<=[.!?]\s)[A-Z][^.!?|`\[\]<>]{60,300}[.!?](?=\s)")
ENDS = ".!?:;)”\"'»]"
Table = dict[str, float]


@dataclass(frozen=True)
class Question:
    """A question, and where its answer stands."""

    text: str
    document: Document
    start: int
    end: int

    @property
    def pages(self) -> set[int]:
        return {
            page.number
            for page in self.document.pages
            if page.start < self.end and self.start < page.end
        }

    @property
    def section(self) -> str | None:
        """The last heading before the answer."""
        before = [item for item in self.document.headings if item.start <= self.start < item.end]
        return before[-1].title if before else None

    def found_by(self, hit: RetrievalResult) -> bool:
        if hit.document_id != self.document.id:
            return False
        if not self.document.pages:
            return self.held_by(hit)
        first, last = hit.pages or (0, 0)
        return any(first <= page <= last for page in self.pages)

    def held_by(self, hit: RetrievalResult) -> bool:
        same = hit.document_id == self.document.id
        return same and hit.start <= self.start and self.end <= hit.end


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--questions", type=int, default=150)
    parser.add_argument("--chunker", default=DEFAULT_CHUNKER)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    embedder: Embedder = create_embedder("minilm")
    if options.cache:
        embedder = CachedEmbedder(embedder, options.cache)
    table = measure(options.folder, embedder, options.chunker, options.questions)
    print(json.dumps(table) if options.json else "\n".join(lines(table)))


def lines(table: Table) -> Iterator[str]:
    """The table for people."""
    for name, value in table.items():
        yield f"{name:32} {value:8.3f}" if value % 1 else f"{name:32} {value:4.0f}"


def measure(folder: Path, embedder: Embedder, chunker_id: str, count: int) -> Table:
    """All figures."""
    began = time.process_time()
    documents = [item for item in load(folder) if isinstance(item, Document) and item.kind != "row"]
    reading = time.process_time() - began
    chunker = CHUNKERS.create(chunker_id, tokenizer=embedder.tokenizer)
    chunks = [(document, chunk) for document in documents for chunk in chunker.chunk(document)]
    asked = list(questions(folder, documents, count))
    pages = sum(len(document.pages) for document in documents)
    with tempfile.TemporaryDirectory() as place:
        began = time.process_time()
        with KnowledgeBase(Path(place) / "kb.db", embedder=embedder, chunker=chunker_id) as kb:
            kb.add(*documents)
            adding = time.process_time() - began + reading
            answers = [(question, kb.retrieve(question.text, top_k=TOP_K)) for question in asked]
    return {
        "documents": len(documents),
        "pages": pages,
        "chunks": len(chunks),
        "chunks with a later heading": sum(crosses(*pair) for pair in chunks),
        "start in mid-sentence": share([starts_within(*pair) for pair in chunks]),
        "questions": len(asked),
        "first right": share([question.found_by(hits[0]) for question, hits in answers if hits]),
        "in the first five": share([any(map(q.found_by, hits)) for q, hits in answers]),
        **cited(answers),
        "pages read per CPU second": pages / reading if pages else 0,
        "pages added per CPU second": pages / adding if pages else 0,
    }


def cited(answers: Sequence[tuple[Question, Sequence[RetrievalResult]]]) -> Table:
    """How often the first hit that holds the answer is cited by the answer's own section."""
    held = [
        (question, next((hit for hit in hits if question.held_by(hit)), None))
        for question, hits in answers
    ]
    right = [
        (hit.heading_path[-1] if hit.heading_path else None) == question.section
        for question, hit in held
        if hit is not None
    ]
    return {"answers held": len(right), "sections right": share(right)}


def questions(folder: Path, documents: Sequence[Document], count: int) -> Iterator[Question]:
    """The questions of the folder, or made ones."""
    written = folder / "questions.jsonl"
    if not written.exists():
        yield from made(documents, count)
        return
    named = {Path(document.source).name: document for document in documents}
    for line in written.read_text(encoding="utf-8").splitlines()[:count]:
        item = json.loads(line)
        document = named[item["file"]]
        pattern = r"\s+".join(map(re.escape, item["answer"].split()))
        found = re.search(pattern, document.text)
        if found is not None:
            yield Question(item["question"], document, *found.span())


def made(documents: Sequence[Document], count: int) -> Iterator[Question]:
    """Sentences that stand in the documents once, with half of their content words."""
    chance = random.Random(7)
    drawn = [
        (document, match.span())
        for document in documents
        for match in SENTENCE.finditer(document.text)
        if len(keywords(match.group(), ["en"])) >= 8
    ]
    for document, (start, end) in chance.sample(drawn, min(count, len(drawn))):
        words = keywords(document.text[start:end], ["en"])
        kept = sorted(chance.sample(range(len(words)), len(words) // 2))
        yield Question(" ".join(words[index] for index in kept), document, start, end)


def crosses(document: Document, chunk: Chunk) -> bool:
    """Whether a heading stands in the chunk behind other text."""
    start = chunk.start + len(chunk.text) - len(chunk.text.lstrip())
    return any(start < item.start < chunk.end for item in document.headings)


def starts_within(document: Document, chunk: Chunk) -> bool:
    """Whether a chunk starts in mid-sentence."""
    start = chunk.start + len(chunk.text) - len(chunk.text.lstrip())
    before = document.text[:start].rstrip()
    if not before or any(item.start == start for item in document.headings):
        return False
    for block in document.blocks:
        if block.kind == "code" and block.start <= start < block.end:
            return False
        if any(part.start == start for part in block.parts):
            return False
        if block.end <= start and not document.text[block.end : start].strip():
            return False
    if document.text[start].islower():
        return True
    blank = document.text[len(before) : start].count("\n") > 1
    return not blank and before[-1] not in ENDS


def share(values: Sequence[bool]) -> float:
    """The share of true values."""
    return sum(values) / len(values) if values else 0.0


if __name__ == "__main__":
    main()
