"""Plain text and source code; Python code with its classes and functions as headings."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from itertools import accumulate

from lagotto.documents import Block, Document, Heading
from lagotto.errors import ReadError
from lagotto.readers.base import Draft, ReadOptions, Source
from lagotto.readers.decode import decode
from lagotto.readers.formats import LANGUAGES, SUFFIXES

MAX_PARSED = 2_000_000
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class TextReader:
    """Reads the source as one text without structure."""

    kind = "text"
    suffixes = SUFFIXES["text"]

    def read(self, source: Source, *, options: ReadOptions) -> Iterator[Document | ReadError]:
        text = decode(source.read(limit=options.max_bytes))
        yield Draft(kind=self.kind, text=text).document(source, options=options)


class CodeReader:
    """Reads a source file as one block of code.

    `metadata["programming_language"]` is its language. In Python code, classes and functions are
    headings that span their definition, decorators included; code that can't be parsed has none.
    """

    kind = "code"
    suffixes = SUFFIXES["code"]

    def read(self, source: Source, *, options: ReadOptions) -> Iterator[Document | ReadError]:
        text = decode(source.read(limit=options.max_bytes))
        language = LANGUAGES.get(source.suffix)
        yield Draft(
            kind=self.kind,
            text=text,
            title=source.title or source.name.rpartition("/")[2] or None,
            headings=tuple(python_headings(text)) if language == "python" else (),
            blocks=(Block(start=0, end=len(text), kind="code"),),
            metadata={"programming_language": language} if language else {},
            detect=False,
        ).document(source, options=options)


def python_headings(text: str) -> Iterator[Heading]:
    """Yield classes and functions, nested ones one level deeper; none if it isn't valid Python."""
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    waiting: list[tuple[int, ast.AST]] = [(1, node) for node in _parsed(text)]
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


def _parsed(text: str) -> list[ast.stmt]:
    if len(text) > MAX_PARSED:
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as invalid escapes in the code
            return ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
