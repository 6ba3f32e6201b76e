"""Small changes to source files, each of which some test must notice: `mutants.py` tries them.

A mutation replaces one span of a file. In Python it changes an operator, a constant, a condition, a
call of `min` or `max`, or leaves out a statement or a result; messages, annotations and docstrings
stay as they are. In TOML it changes a value.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

OPERATORS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "is": "is not", "is not": "is", "in": "not in", "not in": "in",
    "+": "-", "-": "+", "*": "/", "/": "*", "//": "*", "%": "*", "**": "*", "@": "+",
    "|": "&", "&": "|", "<<": ">>", ">>": "<<", "^": "&",
    "and": "or", "or": "and",
}  # fmt: skip
"""The operators, each with what takes its place."""

FUNCTIONS = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"} | {
    "any": "all", "all": "any", "argmax": "argmin", "argmin": "argmax",
    "ceil": "floor", "floor": "ceil", "lower": "upper",
}  # fmt: skip

SETTINGS = {
    "hybrid": "semantic", "semantic": "hybrid", "web": "plain", "ts_rank_cd": "bm25",
    "cosine": "ip", "off": "correct", "always": "correct", "rrf": "linear", "sigmoid": "minmax",
    "none": "replace", "replace": "none", "section": "attach", "late": "precomputed",
    "chunks": "terms", "before_rerank": "after_rerank", "after_rerank": "before_rerank",
}  # fmt: skip
"""Values of settings, each with another one of the same setting."""


@dataclass(frozen=True, slots=True, order=True)
class Mutation:
    """One change: the characters from `start` to `end` of a file become `new`."""

    path: str
    start: int
    end: int
    new: str
    function: str = ""

    def apply(self, text: str) -> str:
        """The changed file."""
        return text[: self.start] + self.new + text[self.end :]

    def line(self, text: str) -> int:
        """The number of the line, from 1."""
        return text.count("\n", 0, self.start) + 1

    def lines(self, text: str) -> tuple[str, str]:
        """The lines it touches before and after, without indentation, as one line each."""
        first = text.rfind("\n", 0, self.start) + 1
        last = text.find("\n", self.end)
        last = len(text) if last < 0 else last
        before, tail = text[first:last], text[self.end : last]
        return _one_line(before), _one_line(text[first : self.start] + self.new + tail)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def mutations(path: str, text: str) -> list[Mutation]:
    """All changes to one file, in order."""
    found = _of_toml(path, text) if path.endswith(".toml") else _of_python(path, text)
    return sorted(set(found))


def _of_toml(path: str, text: str) -> Iterator[Mutation]:
    for match in re.finditer(r"^\w+ = (.+)$", text, re.MULTILINE):
        yield Mutation(path, *match.span(1), _other_value(match[1]))


def _other_value(value: str) -> str:
    if value in ("true", "false"):
        return "false" if value == "true" else "true"
    if value.startswith('"'):
        return f'"{SETTINGS.get(value[1:-1], "x")}"'
    return str(int(value) + 1) if value.isdigit() else str(round(float(value) / 2, 4) or 0.5)


def _of_python(path: str, text: str) -> Iterator[Mutation]:
    tree = ast.parse(text)
    source = _Source(text)
    for node, function in _walk(tree, ""):
        for start, end, new in _changes(node, source):
            yield Mutation(path, start, end, new, function)


class _Source:
    """A text by the positions of its syntax tree, which count bytes within lines."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def offset(self, line: int, column: int) -> int:
        before = self._lines[line - 1].encode()[:column].decode()
        return self._starts[line - 1] + len(before)

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        end = self.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
        return self.offset(node.lineno, node.col_offset), end

    def gap(self, left: ast.expr, right: ast.expr, symbol: str) -> tuple[int, int]:
        """Where `symbol` is between two operands."""
        start, end = self.span(left)[1], self.span(right)[0]
        word = rf"\b{symbol}\b" if symbol[0].isalpha() else re.escape(symbol)
        match = re.search(word.replace(" ", r"\s+"), self.text[start:end])
        assert match is not None, self.text[start:end]
        return start + match.start(), start + match.end()


Change = tuple[int, int, str]


def _walk(node: ast.AST, function: str) -> Iterator[tuple[ast.AST, str]]:
    """The nodes that may change, each with the name of the outermost function it is in."""
    yield node, function
    if isinstance(node, ast.Raise):
        return  # its message is for people
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not function:
        function = node.name
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        children = value if isinstance(value, list) else [value]
        # Defaults are values of the module: they exist before the function is called.
        inner = "" if isinstance(node, ast.arguments) else function
        for child in children:
            if isinstance(child, ast.AST) and not _stays(child):
                yield from _walk(child, inner)


def _stays(node: ast.AST) -> bool:
    """Whether a node is left alone: messages, docstrings, types, names of exports."""
    match node:
        case ast.JoinedStr() | ast.Assert() | ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Subscript(value=ast.Name(id="Literal" | "Callable" | "NDArray")):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__" | "__slots__")]):
            return True
    return False


def _changes(node: ast.AST, source: _Source) -> Iterator[Change]:
    match node:
        case ast.Compare():
            for (left, right), operator in zip(
                pairwise([node.left, *node.comparators]), node.ops, strict=True
            ):
                yield from _operator(_SYMBOLS[type(operator)], left, right, source)
        case ast.BinOp():
            if not _is_type(node.left) and not _is_type(node.right):
                yield from _operator(_SYMBOLS[type(node.op)], node.left, node.right, source)
        case ast.BoolOp():
            for left, right in pairwise(node.values):
                yield from _operator(_SYMBOLS[type(node.op)], left, right, source)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield (*source.span(node), f"({source.text[slice(*source.span(node.operand))]})")
        case ast.Constant():
            yield from _constant(node, source)
        case ast.If() | ast.IfExp():
            start, end = source.span(node.test)
            yield start, end, f"(not ({source.text[start:end]}))"
        case ast.comprehension():
            yield from ((*source.span(condition), "True") for condition in node.ifs)
        case ast.Call():
            yield from _call(node, source)
        case ast.stmt():
            yield from _statement(node, source)


def _operator(symbol: str, left: ast.expr, right: ast.expr, source: _Source) -> Iterator[Change]:
    yield (*source.gap(left, right, symbol), OPERATORS[symbol])


def _is_type(node: ast.expr) -> bool:
    """Whether an operand of `|` is a type, as in `isinstance(value, int | str)`."""
    match node:
        case ast.Name(id=name):
            return name[0].isupper() or name in ("int", "str", "float", "bool", "bytes")
        case ast.Constant(value=None) | ast.JoinedStr() | ast.Constant(value=str()):
            return True
        case ast.Subscript(value=ast.Name(id=name)) | ast.Attribute(attr=name):
            return name[0].isupper() or name in ("tuple", "list", "dict", "set")
        case ast.BinOp(op=ast.BitOr()):
            return _is_type(node.left)
    return False


def _constant(node: ast.Constant, source: _Source) -> Iterator[Change]:
    span = source.span(node)
    match node.value:
        case bool(value):
            yield (*span, str(not value))
        case int(value):
            yield (*span, str(value + 1))
        case float(value):
            yield (*span, repr(value + 1.0 if value in (0.0, 1.0) else value * 1.5))
        case str(value) if value and " " not in value:
            yield (*span, repr(f"XX{value}"))


def _call(node: ast.Call, source: _Source) -> Iterator[Change]:
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in FUNCTIONS:
            end = source.span(node.func)[1]
            yield end - len(name), end, FUNCTIONS[name]


def _statement(node: ast.stmt, source: _Source) -> Iterator[Change]:
    span = source.span(node)
    match node:
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield (*source.span(value), "None")
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Raise():
            yield (*span, "pass")
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield (*span, "pass")
        case ast.Continue():
            yield (*span, "break")
        case ast.Break():
            yield (*span, "continue")


_SYMBOLS: dict[type[ast.AST], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.MatMult: "@", ast.BitOr: "|", ast.BitAnd: "&", ast.LShift: "<<",
    ast.RShift: ">>", ast.BitXor: "^", ast.And: "and", ast.Or: "or",
}  # fmt: skip
