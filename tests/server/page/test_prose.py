"""Texts as the page shows them: the marks of Markdown step back, the text stays what it is."""

from __future__ import annotations

from typing import Any

from lagotto.documents import Document, Heading
from tests.server.page.tab import Tab, expect
from tests.server.running import Running

SUMMARY = """async ([text, words]) => {
  const { summary } = await import("/assets/prose.js");
  const spans = words.map((word) => [text.indexOf(word), text.indexOf(word) + word.length]);
  return summary(text, spans).map((line) => [line.tagName, line.textContent,
    [...line.querySelectorAll("mark")].map((mark) => mark.textContent)]);
}"""

WRAPPED = """# Tuning

Twelve pure fifths upward should arrive at the same note as
seven octaves, but they overshoot by a little.

1. Pythagorean tuning keeps eleven fifths pure and puts all
   of the error in the last.
2. Equal temperament.

| name | ratio |
| --- | --- |
| fifth | 3:2 |

```
a line of code that is long enough to have been broken, but
was not
```

A section without marks, whose title is a long line of text
A title that is no more than a line
"""


def shown(tab: Tab, text: str, *words: str) -> list[Any]:
    tab.open("/")
    found: list[Any] = tab.page.evaluate(SUMMARY, [text, list(words)])
    return found


def test_an_excerpt_has_no_marks_of_markdown(tab: Tab) -> None:
    lines = shown(tab, WRAPPED.partition("```")[0], "Tuning", "octaves", "error", "fifth |", "3:2")
    assert lines == [
        ["B", "Tuning", ["Tuning"]],
        ["SPAN", "Twelve pure fifths upward should arrive at the same note as seven octaves, but "
         "they overshoot by a little.", ["octaves"]],
        ["SPAN", "1. Pythagorean tuning keeps eleven fifths pure and puts all    of the error in "
         "the last.", ["error"]],
        ["SPAN", "2. Equal temperament.", []],
        ["SPAN", " name  ·  ratio ", []],
        ["SPAN", " fifth  ·  3:2 ", ["3:2"]],
    ]  # fmt: skip


def test_a_text_without_marks_is_a_line(tab: Tab) -> None:
    assert shown(tab, "Pigs find truffles too.", "truffles") == [
        ["SPAN", "Pigs find truffles too.", ["truffles"]]
    ]
    assert shown(tab, "| | |") == []
    code = shown(tab, "Run it:\n\n```sh\nlagotto add .\nlagotto serve\n```\n")
    assert [text for _, text, _ in code] == ["Run it:", "lagotto add .", "lagotto serve"]


def test_a_document_flows_and_keeps_every_character(tab: Tab, server: Running) -> None:
    title = WRAPPED.index("A title that")
    headings = (
        Heading(start=0, end=len(WRAPPED), level=1, title="Tuning"),
        Heading(start=title, end=len(WRAPPED), level=2, title="A title"),
    )
    document = Document(id="wrapped", collection="prose", text=WRAPPED, headings=headings)
    server.call(server.state.base.add(document))
    try:
        cited = WRAPPED.index("note as")
        page = tab.open("/document", cite=f"prose/wrapped#{cited}-{cited + 13}")
        expect(page.locator("mark.cited")).to_be_visible()
        text = page.locator(".document-text")
        assert text.text_content() == WRAPPED
        assert page.locator("mark.cited").text_content() == "note as\nseven"
        lines = text.inner_text().splitlines()
        assert any("same note as seven octaves" in line for line in lines)
        assert any("puts all of the error" in line for line in lines)
        assert "was not" in lines  # code keeps its lines
        assert "A title that is no more than a line" in lines  # and so do titles
    finally:
        server.call(server.state.base.remove("wrapped", collection="prose"))
