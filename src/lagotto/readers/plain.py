"""Plain text and source code. Numbered clauses, classes and functions are headings.

A clause of a contract, a statute or minutes starts a line with its number (`1.`, `3.2`, `§ 3`,
`Article 4`), and numbers follow each other: an amount at the start of a line does not. A list of
short items has numbers too, but no text to be a section.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from itertools import accumulate, pairwise
from statistics import median

from lagotto.documents import Block, Heading
from lagotto.readers.base import Draft, HeadingMark, Source, one_line, roman_number, sections
from lagotto.readers.decode import decode
from lagotto.readers.formats import LANGUAGES, draft_reader

MAX_PARSED = 2_000_000
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@draft_reader("text")
def read_text(source: Source, limit: int) -> Draft:
    """Read the source as one text without structure."""
    return Draft(text=decode(source.read(limit=limit)))


@draft_reader("code")
def read_code(source: Source, limit: int) -> Draft:
    """Read a source file as one block of code.

    `metadata["programming_language"]` is its language. In Python code, classes and functions are
    headings that span their definition, decorators included; code that can't be parsed has none.
    """
    text = decode(source.read(limit=limit))
    language = LANGUAGES.get(source.suffix)
    return Draft(
        text=text,
        title=source.title or source.name.rpartition("/")[2] or None,
        headings=tuple(_python_headings(text)) if language == "python" else (),
        blocks=(Block(start=0, end=len(text), kind="code"),),
        metadata={"programming_language": language} if language else {},
    )


def _python_headings(text: str) -> Iterator[Heading]:
    """Yield classes and functions, nested ones one level deeper; none if it isn't valid Python."""
    if len(text) > MAX_PARSED:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as invalid escapes in the code
            waiting: list[tuple[int, ast.AST]] = [(1, node) for node in ast.parse(text).body]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    while waiting:
        level, node = waiting.pop()
        inner = level
        if isinstance(node, Definition):
            first = min(item.lineno for item in (node, *node.decorator_list))
            last = node.end_lineno or node.lineno
            end = starts[last - 1] + len(lines[last - 1])
            yield Heading(start=starts[first - 1], end=end, level=level, title=node.name)
            inner = level + 1
        if isinstance(node, ast.stmt | ast.ExceptHandler):
            waiting += ((inner, child) for child in ast.iter_child_nodes(node))


FEWEST_CLAUSES = 3
SHORTEST_CLAUSE = 100
"""Characters that the top clauses have at least, by their median; those of a list have fewer."""
LONGEST_TITLE = 80
MOST_TITLE_WORDS = 8
LONGEST_TEXT = 5_000_000
"""Characters; what is larger is data."""

_NO_DIGIT = re.compile(r"\D")
_CLAUSE = re.compile(
    r"^[ \t]{0,12}(?P<label>"
    r"(?P<word>§+|article|section|clause|chapter|annex|schedule|artikel|abschnitt|kapitel|artículo"
    r"|articolo|artigo|статья|глава|раздел)[ \t]*(?P<of_word>\d{1,4}[a-z]?|[IVXLC]{1,6})\b"
    r"|(?P<number>\d{1,3}(?:\.\d{1,3}){1,3}|\d{1,3}(?=\.)))"
    r"(?P<rest>[^\n]*)$",
    re.MULTILINE | re.IGNORECASE,
)
_TITLE_END = re.compile(r"[.:;](?=\s|$)|\s[–—-]\s")


def clause_headings(text: str) -> tuple[Heading, ...]:
    """The clauses of `text` as headings, subclauses inside of them; none if it has no such."""
    marks = list(_marks(text)) if len(text) <= LONGEST_TEXT else []
    top = min((mark.level for mark in marks), default=1)
    tops = [mark.start for mark in marks if mark.level == top]
    lengths = [end - start for start, end in pairwise([*tops, len(text)])]
    if len(tops) < FEWEST_CLAUSES or median(lengths) < SHORTEST_CLAUSE:
        return ()
    return sections(marks, end=len(text))


def _marks(text: str) -> Iterator[HeadingMark]:
    """The starts of clauses whose numbers follow each other."""
    last_word = 0  # the number of the article or section that it is in
    last: tuple[int, ...] = ()
    for match in _CLAUSE.finditer(text):
        rest = match["rest"].lstrip(" \t.:)–—-")
        # a title, a sentence, or on the next line
        starts_title = not rest or not (rest[0].islower() or rest[0].isdigit() or rest[0] in ",;")
        if match["word"]:
            numeral = match["of_word"]
            number = int(_NO_DIGIT.sub("", numeral) or roman_number(numeral))
            if (last_word and number != last_word + 1) or not starts_title:
                continue
            last_word, last, level = number, (), 1
        else:
            path = tuple(map(int, match["number"].split(".")))
            if not _follows(path, last, last_word) or (len(path) == 1 and not starts_title):
                continue
            last, level = path, len(path) + bool(last_word)
        label = one_line(match["label"])
        label += "." if label.isdecimal() else ""
        yield HeadingMark(match.start("label"), level, f"{label} {_title(match, rest)}".strip())


def _follows(path: tuple[int, ...], last: tuple[int, ...], last_word: int) -> bool:
    """Whether a number is the next sibling of one in `last`, its first child, or the first."""
    if not last:
        return path in ((1,), (1, 1), (last_word, 1))
    if path == (*last, 1):
        return True
    depth = len(path) - 1
    return depth < len(last) and path[:depth] == last[:depth] and path[depth] == last[depth] + 1


def _title(match: re.Match[str], rest: str) -> str:
    """The title behind a number, or on the line below it; none where a sentence is."""
    if not rest:
        below = match.string[match.end() :].lstrip().partition("\n")[0]
        rest = "" if _CLAUSE.match(below) else below
    end = _TITLE_END.search(rest, 0, LONGEST_TITLE + 1)
    title = (rest[: end.start()] if end else rest).strip()
    return title if len(title.split()) <= MOST_TITLE_WORDS else ""
