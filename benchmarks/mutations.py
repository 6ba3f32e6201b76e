"""Small changes to source files, each of which some test must notice: `mutants.py` tries them.

A mutation replaces one span of a file. In Python it changes an operator, a condition, a constant
(one of a module or a default in both directions) or a call of `min` or `max`, moves the bound of a
slice by one, swaps two arguments, or leaves out a statement, a result, an operand or an element of
a collection; messages, annotations and docstrings stay as they are. In TOML it changes a value.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise

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

SYMMETRIC = {"min", "max", "minimum", "maximum", "zip", "isinstance", "issubclass", "gather"}
"""Functions whose arguments are not swapped: it changes nothing, or fails at once."""

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
    droppable = _assigned_before(tree)
    fixed = _of_fixed_length(tree)
    for node, function in _walk(tree, ""):
        found = _changes(node, source)
        if isinstance(node, ast.Constant) and not function:
            found = chain(found, _smaller(node, source))
        elif id(node) in droppable and isinstance(node, ast.stmt):
            found = chain(found, [(*source.span(node), "pass")])
        elif isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict) and id(node) not in fixed:
            found = chain(found, _fewer(node, source, last_only=not function))
        for start, end, new in found:
            yield Mutation(path, start, end, new, function)


def _assigned_before(tree: ast.AST) -> set[int]:
    """The ids of assignments that can be left out: their name has another value before them."""
    found: set[int] = set()
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        nodes = list(ast.walk(function))
        names = {node.arg for node in nodes if isinstance(node, ast.arg)}
        stored = [
            (node.lineno, node.id)
            for node in nodes
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        ]
        for node in nodes:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], lineno=line):
                    earlier = {other for at, other in stored if at < line}
                    if name in names | earlier:
                        found.add(id(node))
    return found


def _of_fixed_length(tree: ast.AST) -> set[int]:
    """The ids of collections that are taken apart or compared whole: with fewer elements they fail
    at once, which shows nothing."""
    found: list[ast.AST | None] = []
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Tuple()]) | ast.Return():
                found.append(node.value)
            case ast.Subscript():
                found.append(node.slice)
            case ast.Compare(ops=[ast.In() | ast.NotIn()]):
                found.append(node.left)
            case ast.Compare():
                found += [node.left, *node.comparators]
            case ast.Tuple(ctx=ast.Store()):
                found.append(node)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                found.append(node.elt)
            case ast.keyword(arg="key") | ast.Lambda():
                found += list(ast.walk(node))
            case ast.Call(func=ast.Attribute(attr="append" | "add" | "setdefault" | "get")):
                found += node.args[:1]
    return {id(node) for node in found}


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

    def of(self, node: ast.expr) -> str:
        """The source of an expression."""
        return self.text[slice(*self.span(node))]

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
    """Whether a node is left alone: messages, docstrings, types, names of exports, checks."""
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
        case ast.keyword(arg="strict"):  # of zip: it makes an error of a mistake
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
            if len(node.values) == 2:
                yield from ((*source.span(node), f"({source.of(one)})") for one in node.values)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield (*source.span(node), f"({source.of(node.operand)})")
        case ast.Constant():
            yield from _constant(node, source)
        case ast.If() | ast.IfExp():
            yield (*source.span(node.test), f"(not ({source.of(node.test)}))")
        case ast.comprehension():
            yield from ((*source.span(condition), "True") for condition in node.ifs)
        case ast.Call():
            yield from _call(node, source)
            yield from _swapped(node, source)
        case ast.Slice():
            for bound in (node.lower, node.upper):
                if bound is not None and not isinstance(bound, ast.Constant):
                    yield (*source.span(bound), f"({source.of(bound)}) + 1")
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
        case str(value) if len(value.strip()) > 1 and not re.search(r"\w", value):
            yield (*span, repr(value[:-1]))  # a set of characters


def _smaller(node: ast.Constant, source: _Source) -> Iterator[Change]:
    """A constant of the module, or a default, in the other direction."""
    match node.value:
        case bool():
            return
        case int(value) if value > 0:
            yield (*source.span(node), str(value - 1))
        case float(value) if value > 0:
            yield (*source.span(node), repr(value * 0.8))


def _fewer(
    node: ast.Tuple | ast.List | ast.Set | ast.Dict, source: _Source, *, last_only: bool
) -> Iterator[Change]:
    """The collection without one of its elements."""
    values = node.values if isinstance(node, ast.Dict) else node.elts
    keys = node.keys if isinstance(node, ast.Dict) else values
    if len(values) < 2 or None in keys:  # `**other` has no key
        return
    starts = [source.span(key)[0] for key in keys if key]
    ends = [source.span(value)[1] for value in values]
    # A tuple of one element needs a comma behind it.
    has_comma = source.text[ends[-1] :].lstrip().startswith(",")
    comma = "," if isinstance(node, ast.Tuple) and len(values) == 2 and not has_comma else ""
    for index in range(len(values) - 1 if last_only else 0, len(values) - 1):
        following = starts[index + 1]
        if comma:
            yield starts[index], ends[-1], source.text[following : ends[-1]] + comma
        else:
            yield starts[index], following, ""
    yield ends[-2], ends[-1], comma


def _call(node: ast.Call, source: _Source) -> Iterator[Change]:
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in FUNCTIONS:
            end = source.span(node.func)[1]
            yield end - len(name), end, FUNCTIONS[name]
            starred = any(isinstance(one, ast.Starred) for one in node.args)
            if name in ("min", "max") and len(node.args) == 2 and not (node.keywords or starred):
                yield from ((*source.span(node), f"({source.of(one)})") for one in node.args)
        case ast.Name(id="replace") | ast.Attribute(attr="replace") if len(node.keywords) > 1:
            for former, keyword in pairwise(node.keywords):
                yield source.span(former.value)[1], source.span(keyword.value)[1], ""


def _swapped(node: ast.Call, source: _Source) -> Iterator[Change]:
    """The call with two neighbouring arguments of the same shape in each other's place."""
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in SYMMETRIC:
            return
    for former, latter in pairwise(node.args):
        if type(former) is type(latter) and isinstance(former, ast.Name | ast.Attribute):
            (start, end), (then, stop) = source.span(former), source.span(latter)
            between = source.text[end:then]
            yield start, stop, f"{source.of(latter)}{between}{source.of(former)}"


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
