"""Make a folder of annual reports as PDF files, with questions, for `citations.py`.

    python benchmarks/filings.py FOLDER [--companies 10] [--paragraphs 300]

Reports of made-up companies with what real ones have: junk titles in the metadata, a line "Table of
Contents" at the top of every page, running footers with page numbers, an outline of parts, items
and notes, sentences that go on over page breaks, and tables of numbers. The paragraphs are alike
in all reports; what tells them apart are names and figures. Always the same files.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from fpdf import FPDF

NAMES = (
    "Northwind Energy", "Halcyon Foods", "Blue Mesa Mining", "Quillon Software", "Tidewater Bank",
    "Orchard Health", "Vantage Rail", "Copperline Telecom", "Summit Paper", "Larkspur Retail",
    "Granite Insurance", "Meridian Airlines",
)  # fmt: skip
JUNK = (
    "0000064803-23-{:06}",
    "Microsoft Word - 10-K draft {}",
    "untitled",
    "Document{}",
    "{:032x}",
)
ITEMS = {
    "Part I": (
        "Item 1. Business",
        "Item 1A. Risk Factors",
        "Item 2. Properties",
        "Item 3. Legal Proceedings",
    ),
    "Part II": (
        "Item 5. Market for Common Equity",
        "Item 7. Management's Discussion",
        "Item 7A. Market Risk",
        "Item 8. Financial Statements",
    ),
    "Part III": ("Item 10. Directors", "Item 11. Executive Compensation", "Item 13. Transactions"),
}
NOTES = (
    "Revenue Recognition", "Inventories", "Goodwill", "Leases", "Income Taxes", "Debt", "Pensions",
    "Share-Based Compensation", "Segments", "Commitments", "Derivatives", "Restructuring",
)  # fmt: skip
FACTS = {
    "research and development expense": "Item 7. Management's Discussion",
    "number of employees": "Item 1. Business",
    "square feet of leased warehouse space": "Item 2. Properties",
    "accrual for the patent lawsuit": "Item 3. Legal Proceedings",
    "dividends declared per share": "Item 5. Market for Common Equity",
    "effect of a ten percent change in exchange rates": "Item 7A. Market Risk",
    "base salary of the chief executive officer": "Item 11. Executive Compensation",
    "impairment of goodwill": "Goodwill",
    "unrecognized tax benefits": "Income Taxes",
    "discount rate for pension obligations": "Pensions",
    "backlog of unfilled orders": "Item 1. Business",
    "cost of the restructuring program": "Restructuring",
}
SUBJECTS = (
    "The Company",
    "Management",
    "The Board of Directors",
    "Our largest segment",
    "The Audit Committee",
)
VERBS = (
    "continues to evaluate", "has historically relied on", "expects a moderate increase in",
    "cannot assure investors of", "periodically reviews the assumptions behind",
    "is subject to extensive regulation of", "may be adversely affected by",
)  # fmt: skip
OBJECTS = (
    "the availability of raw materials", "seasonal demand in its principal markets",
    "the recoverability of long-lived assets", "the creditworthiness of its counterparties",
    "competition from larger manufacturers", "the retention of qualified personnel",
    "changes in accounting standards", "its revolving credit facilities",
    "the timing of regulatory approvals", "the integration of acquired businesses",
)  # fmt: skip
CLAUSES = (
    "and no assurance can be given that these efforts will succeed",
    "which could have a material effect on results of operations and cash flows",
    "as described elsewhere in this annual report",
    "although the amounts involved have not been significant in recent years",
    "and therefore periods are not necessarily comparable",
    "subject to the covenants contained in the credit agreement",
)
ROWS = ("Net sales", "Cost of sales", "Gross margin", "Operating expenses", "Interest expense",
        "Income before taxes", "Provision for income taxes", "Net income")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--companies", type=int, default=10, choices=range(1, len(NAMES) + 1))
    parser.add_argument("--paragraphs", type=int, default=300)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    pages, asked = 0, []
    for number, name in enumerate(NAMES[: options.companies]):
        report = Report(name, year=2021 + number % 3, seed=number)
        report.write(options.paragraphs)
        file = options.folder / f"{name.lower().replace(' ', '-')}-{report.year}-10k.pdf"
        report.pdf.output(str(file))
        pages += report.pdf.page_no()
        asked += [{"file": file.name, **question} for question in report.questions]
    lines = "".join(f"{json.dumps(question)}\n" for question in asked)
    (options.folder / "questions.jsonl").write_text(lines, encoding="utf-8")
    print(f"{options.companies} reports, {pages} pages, {len(asked)} questions")


class Pages(FPDF):
    """Pages with the margins of a filing."""

    def __init__(self, footer: str) -> None:
        super().__init__(format="letter", unit="pt")
        self._running = footer
        self.set_margins(72, 72, 72)
        self.set_auto_page_break(True, margin=72)

    def header(self) -> None:
        self.set_font("Helvetica", size=8)
        self.set_y(30)
        self.cell(0, 10, "Table of Contents")
        self.set_y(72)

    def footer(self) -> None:
        self.set_font("Helvetica", size=8)
        self.set_y(-42)
        self.cell(0, 10, f"{self._running} | {self.page_no()}", align="C")


class Report:
    """One annual report, and the questions that it answers."""

    def __init__(self, name: str, *, year: int, seed: int) -> None:
        self.name, self.year = name, year
        self._chance = random.Random(seed)
        self.pdf = Pages(f"{name}, Inc. | {year} Form 10-K")
        self.pdf.set_title(JUNK[seed % len(JUNK)].format(seed + 9))
        self.pdf.set_creation_date(datetime(year + 1, 2, 1, tzinfo=UTC))
        self.questions: list[dict[str, str]] = []

    def write(self, paragraphs: int) -> None:
        """All parts, items and notes, with about that many paragraphs."""
        self.pdf.add_page()
        self._line(f"{self.name}, Inc.", size=18)
        self._line(f"Annual report for the fiscal year {self.year}", size=12)
        places = sum(len(items) for items in ITEMS.values()) + len(NOTES)
        each = max(2, paragraphs // places)
        for part, items in ITEMS.items():
            self._heading(part, level=0)
            for item in items:
                self._heading(item, level=1)
                self._section(item, each)
                if item.startswith("Item 8"):
                    self._statements()
                    for number, note in enumerate(NOTES, 1):
                        self._heading(f"Note {number}. {note}", level=2)
                        self._section(note, each)

    def _section(self, name: str, paragraphs: int) -> None:
        facts = [fact for fact, section in FACTS.items() if section == name]
        told = dict(zip(self._chance.sample(range(paragraphs), len(facts)), facts, strict=True))
        for number in range(paragraphs):
            sentences = list(self._sentences(self._chance.randint(3, 7)))
            if number in told:
                sentences.insert(self._chance.randrange(len(sentences)), self._fact(told[number]))
            self._paragraph(" ".join(sentences))
            if self._chance.random() < 0.1:
                self._table(3 + self._chance.randrange(8))

    def _sentences(self, count: int) -> Iterator[str]:
        pick = self._chance.choice
        for _ in range(count):
            amount = f"${self._chance.randint(2, 900)}.{self._chance.randint(0, 9)} million"
            yield pick(
                (
                    f"{pick(SUBJECTS)} {pick(VERBS)} {pick(OBJECTS)}, {pick(CLAUSES)}.",
                    f"In {self.year}, {pick(OBJECTS)} accounted for {amount}, {pick(CLAUSES)}.",
                    f"{pick(SUBJECTS)} {pick(VERBS)} {pick(OBJECTS)} and {pick(OBJECTS)}.",
                )
            )

    def _fact(self, fact: str) -> str:
        value = f"{self._chance.randint(11, 989)}.{self._chance.randint(1, 9)}"
        said = f"The {fact} amounted to {value} in fiscal {self.year}"
        self.questions.append(
            {
                "question": f"What was the {fact} of {self.name} in fiscal {self.year}?",
                "answer": said,
            }
        )
        return f"{said}, compared with {self._chance.randint(11, 989)}.4 in the prior year."

    def _statements(self) -> None:
        self._line("Consolidated Statements of Income (in millions)", size=10)
        self._table(len(ROWS), labels=ROWS)

    def _table(self, rows: int, labels: tuple[str, ...] = ()) -> None:
        chosen = labels or tuple(self._chance.choice(OBJECTS).capitalize() for _ in range(rows))
        years = [str(self.year - back) for back in range(3)]
        for label, cells in (("", years), *((label, self._cells()) for label in chosen)):
            if self.pdf.will_page_break(14):
                self.pdf.add_page()
            self.pdf.set_font("Helvetica", size=9)
            self.pdf.cell(260, 14, label)
            for cell in cells:
                self.pdf.cell(60, 14, cell, align="R")
            self.pdf.ln(14)
        self.pdf.ln(8)

    def _cells(self) -> list[str]:
        return [f"{self._chance.randint(100, 99_999):,}" for _ in range(3)]

    def _heading(self, title: str, *, level: int) -> None:
        if self.pdf.will_page_break(80):
            self.pdf.add_page()
        self.pdf.start_section(title, level=level)
        self._line(title, size=14 - level)

    def _line(self, text: str, *, size: int) -> None:
        self.pdf.set_font("Helvetica", style="B", size=size)
        self.pdf.cell(0, size + 8, text)
        self.pdf.ln(size + 8)

    def _paragraph(self, text: str) -> None:
        self.pdf.set_font("Helvetica", size=10)
        self.pdf.multi_cell(0, 13, text, align="L", new_x="LMARGIN", new_y="NEXT")
        self.pdf.ln(6)


if __name__ == "__main__":
    main()
