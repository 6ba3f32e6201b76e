"""A first day with mixed files: are the answers found, packed, and cited by their section?

    python benchmarks trial [--top-k 5] [--tokens 4000] [--chunker NAME] [--verbose]

Annual reports as PDF, slides, contracts, mail, documentation, code and JSON, all made up in
trial.md, beside the documents of the demo and Lagotto's own documentation. A question counts as
answered by a passage of the right file that holds the words after `=>`; as cited, if that passage
names the section (or, on a slide or page, its number).
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path

from lagotto import KnowledgeBase
from lagotto.demo import corpus

MATERIAL = Path(__file__).parent / "trial.md"
DOCS = Path(__file__).parent.parent / "docs"


@dataclass
class Section:
    """A part of a file; without a title, all of it."""

    title: str = ""
    lines: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.lines).strip("\n")


@dataclass
class File:
    path: Path
    sections: list[Section]

    @property
    def title(self) -> str:
        return self.path.stem.replace("-", " ").capitalize()


@dataclass(frozen=True)
class Question:
    text: str
    answer: str
    path: Path
    section: Section
    number: int
    """Of the section in its file, which is its page or slide."""


def material() -> tuple[list[File], list[Question]]:
    """What trial.md describes."""
    files: list[File] = []
    questions: list[Question] = []
    for line in MATERIAL.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            files.append(File(Path(line[2:]), [Section()]))
        elif line.startswith("## "):
            files[-1].sections.append(Section(line[3:]))
        elif line.startswith("? "):
            text, _, answer = line[2:].partition(" => ")
            section, number = files[-1].sections[-1], len(files[-1].sections) - 1
            questions.append(Question(text, answer, files[-1].path, section, number))
        else:
            files[-1].sections[-1].lines.append(line)
    return files, questions


def write_text(file: File, target: Path) -> None:
    parts = [f"## {each.title}\n\n{each.text}\n" for each in file.sections if each.title]
    is_prose = file.path.suffix == ".md"
    text = "\n".join([f"# {file.title}\n", *parts]) if is_prose else file.sections[0].text + "\n"
    target.write_text(text, encoding="utf-8")


def write_pdf(file: File, target: Path) -> None:
    """Each section on a page of its own."""
    from fpdf import FPDF

    pdf = FPDF()
    for section in file.sections[1:]:
        pdf.add_page()
        pdf.set_font("helvetica", "B", 15)
        pdf.cell(0, 12, section.title, new_x="LMARGIN", new_y="NEXT")
        pdf.set_font("helvetica", "", 11)
        pdf.multi_cell(0, 6, section.text.encode("latin-1", "replace").decode("latin-1"))
    pdf.set_title(file.title)
    pdf.output(str(target))


def write_slides(file: File, target: Path) -> None:
    from pptx import Presentation

    slides = Presentation()
    for section in file.sections[1:]:
        slide = slides.slides.add_slide(slides.slide_layouts[1])
        slide.shapes.title.text = section.title
        slide.placeholders[1].text = section.text
    slides.save(str(target))


def write_contract(file: File, target: Path) -> None:
    """Numbered clauses as plain paragraphs, as most contracts have them."""
    import docx

    contract = docx.Document()
    contract.add_paragraph(file.title)
    for section in file.sections[1:]:
        contract.add_paragraph(section.title)
        contract.add_paragraph(section.text)
    contract.save(str(target))


def write_mail(file: File, target: Path) -> None:
    message, section = EmailMessage(), file.sections[-1]
    message["Subject"], message["From"] = section.title, "Office <office@example.org>"
    message["To"], message["Date"] = "all@example.org", "Mon, 04 Mar 2024 10:00:00 +0100"
    message.set_content(section.text + "\n")
    target.write_bytes(bytes(message))


WRITERS: dict[str, Callable[[File, Path], None]] = {
    ".pdf": write_pdf,
    ".pptx": write_slides,
    ".docx": write_contract,
    ".eml": write_mail,
}


@dataclass
class Outcome:
    """Where a question was answered: 0 for nowhere; by a citation of the section or not."""

    rank: int
    cited: bool
    packed: bool
    tokens: int


def ask(base: KnowledgeBase, question: Question, *, top_k: int, tokens: int) -> Outcome:
    name = question.path.name

    def holds(text: str, source: str) -> bool:
        flat = " ".join(text.split())
        return source.endswith(name) and question.answer in flat

    hits = base.retrieve(question.text, top_k=top_k)
    ranks = [at for at, hit in enumerate(hits, 1) if holds(hit.content, hit.document_source or "")]
    cited = False
    if ranks:
        citation = hits[ranks[0] - 1].citation
        title = question.section.title.partition(". ")[2] or question.section.title
        page = f"Page: {question.number}"
        cited = title in citation or page in citation.split(" | ")
    pack = base.context(question.text, max_tokens=tokens)
    packed = question.answer in " ".join(pack.context_pack.split())
    return Outcome(ranks[0] if ranks else 0, cited, packed, pack.tokens)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--top-k", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=4000)
    parser.add_argument("--chunker")
    parser.add_argument("--verbose", action="store_true", help="name what was not found")
    options = parser.parse_args()
    files, questions = material()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "files"
        for file in files:
            target = folder / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            WRITERS.get(file.path.suffix, write_text)(file, target)
        with (
            corpus() as demo,
            KnowledgeBase(str(Path(scratch) / "trial.db"), chunker=options.chunker) as base,
        ):
            base.add(folder, DOCS, demo)
            outcomes = [
                ask(base, each, top_k=options.top_k, tokens=options.tokens) for each in questions
            ]
    show(questions, outcomes, verbose=options.verbose)


def show(questions: Sequence[Question], outcomes: Sequence[Outcome], *, verbose: bool) -> None:
    """A row for each kind of file."""
    print("| files | questions | first | in the list | cited by section | in the pack | tokens |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    pairs = list(zip(questions, outcomes, strict=True))
    kinds = list(dict.fromkeys(question.path.parts[0] for question in questions))
    for kind in [*kinds, "all"]:
        some = [out for each, out in pairs if kind in (each.path.parts[0], "all")]
        found = [out for out in some if out.rank]
        has_sections = kind not in ("code", "json", "mail")
        cells = [
            kind,
            len(some),
            sum(out.rank == 1 for out in some),
            len(found),
            sum(out.cited for out in found) if has_sections else "",
            sum(out.packed for out in some),
            round(sum(out.tokens for out in some) / len(some)),
        ]
        print("| " + " | ".join(map(str, cells)) + " |")
    for question, out in pairs if verbose else ():
        if out.rank != 1 or not out.packed:
            print(f"{question.path}: {question.text} (rank {out.rank}, in the pack: {out.packed})")


if __name__ == "__main__":
    main()
