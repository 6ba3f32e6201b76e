"""Plain text and source code; Python code with its classes and functions as headings."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from itertools import accumulate

from lagotto.documents import Block, Heading
from lagotto.readers.base import Draft, Source
from lagotto.readers.decode import decode
from lagotto.readers.formats import LANGUAGES, FormatReader

MAX_PARSED = 2_000_000
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class TextReader(FormatReader):
    """Reads the source as one text without structure."""

    kind = "text"

    def draft(self, source: Source, *, limit: int) -> Draft:
        return Draft(kind=self.kind, text=decode(source.read(limit=limit)))


class CodeReader(FormatReader):
    """Reads a source file as one block of code.

    `metadata["programming_language"]` is its language. In Python code, classes and functions are
    headings that span their definition, decorators included; code that can't be parsed has none.
    """

    kind = "code"

    def draft(self, source: Source, *, limit: int) -> Draft:
        text = decode(source.read(limit=limit))
        language = LANGUAGES.get(source.suffix)
        return Draft(
            kind=self.kind,
            text=text,
            title=source.title or source.name.rpartition("/")[2] or None,
            headings=tuple(_python_headings(text)) if language == "python" else (),
            blocks=(Block(start=0, end=len(text), kind="code"),),
            metadata={"programming_language": language} if language else {},
            detect=False,
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
