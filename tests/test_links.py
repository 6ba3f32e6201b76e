"""What the documentation names exists: pages, headings, files, make targets, options."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "ARCHITECTURE", "SECURITY")),
    *(ROOT / f"{name}.md" for name in ("CHANGELOG", "benchmarks/RESULTS")),
    *sorted((ROOT / "docs").glob("*.md")),
]
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
FILE = re.compile(r"\b(?:tests|benchmarks|scripts)/[\w/]+\.\w+")
TARGET = re.compile(r"\bmake ([a-z][a-z-]*)\b")
BENCHMARK = re.compile(r"python benchmarks ([a-z]\w*)((?:\s+[^`\s]+)*)")


def prose(page: Path) -> str:
    """The text of a page without its code blocks."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """The fragments that the headings of a page can be linked by."""
    titles = [CODE.sub(lambda code: code[0][1:-1], title) for title in HEADING.findall(prose(page))]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))


def broken_links(page: Path) -> list[str]:
    broken = []
    for link in LINK.findall(CODE.sub("", prose(page))):
        if "://" in link:
            continue
        path, _, fragment = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (fragment and fragment not in anchors(target)):
            broken.append(link)
    return broken


def pages(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(name, PAGES, ids=lambda page: page.name)


@pages("page")
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# A `code` heading, with signs!\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md#a-code-heading-with-signs) [b](other.md#b) [c](c.md) [d](#d)\n"
        "`[e](e.md)`\n```\n# d\n[f](f.md)\n```\n",
        encoding="utf-8",
    )
    assert broken_links(page) == ["other.md#b", "c.md", "#d"]


@pages("page")
def test_files_and_make_targets_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [name for name in FILE.findall(text) if not (ROOT / name).exists()] == []
    code = " ".join(FENCE.findall(text) + CODE.findall(text))
    assert set(TARGET.findall(code)) - targets() == set()


@pages("page")
def test_benchmarks_have_the_options_shown(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    commands = CODE.findall(text.replace("\n", " ")) + FENCE.findall(text)
    for name, arguments in BENCHMARK.findall("\n".join(commands)):
        source = (ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")
        for option in re.findall(r"--[a-z][a-z-]*", arguments):
            assert f'"{option}"' in source, f"{name} has no option {option}"


@pages("page")
def test_every_page_is_linked_from_the_readme(page: Path) -> None:
    linked = {(ROOT / link.partition("#")[0]).resolve() for link in LINK.findall(prose(PAGES[0]))}
    assert page in {*linked, PAGES[0]}
