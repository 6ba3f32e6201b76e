"""Every regular expression of the package takes time linear in its input.

A pattern that backtracks hangs a reader or a search on a few kilobytes. Each one is fed long runs
of what it looks for; a quadratic one takes a thousand times as long on these as a linear one.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from time import process_time

import pytest

import lagotto

pytestmark = pytest.mark.slow

ROOT = Path(lagotto.__file__).parent
LENGTH = 10_000
SECONDS = 0.3
"""A linear pattern takes about a millisecond on `LENGTH` characters, a quadratic one a second."""

ONLY_MATCHED = {
    "lagotto.context.answer_check._LEADING",
    "lagotto.readers.formats.HTML_START",
    "lagotto.rerankers.llm._MEMBERS",
}
"""Used by `match` at a known position, or inside what another pattern has matched."""

PUMPS = (
    " ", "\n", "\t", "\r\n", "a", "A", "é", "7", "0.", "1:", "a.", "a-", "a_", "a b ", "a\n",
    " \n", '"', "'", '"a" ', "“", "„", "«", "(", "((", ")", "[", "]", "[1]", "{", "}", "<", ">",
    "<a", "<!--", "<!---->", "<!-- -->", "-->", "--", "-", "_", "__", "=", "==", "*", "**", "`",
    "``", "~", "#", "# ", "|", "| a ", "||", '\\', '\\\\', "/", "//", "a/", ":", "::", ";", ",",
    ", ", ".", "..", "...", "!", "?", "&", "&amp;", "%", "$", "@", "a@", "+", "^", "0", "00",
    "0x", "\x00", "\x02", "\u200b", "\ufeff", "東", "а", "ё", "a1", "1a", "A1-", "---\n",
    "def a:\n", "class A:\n", "<html", "<!doctype ", " a", "\n\n", "x=", "x: ", "- ", "1. ",
    "2024-", "http://a", 'C:\\', '\\"', "<br>", "</", "is ",
)  # fmt: skip
ENDS = ("", "!", "a")


def modules() -> list[str]:
    names = []
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        if "__main__" not in parts and "corpus" not in parts:
            names.append(".".join(parts).removesuffix(".__init__"))
    return names


MADE_OF_INPUT = {
    "readers/pdf.py": "the words of a title; runs in the child process, within its limits",
    "rerankers/llm.py": "the words of a quotation, as long as an answer and a passage are",
}
"""Modules with a pattern that depends on their input, and why that is bearable."""


MADE = ("re.Pattern", "tuple[re.Pattern")


def _makes_pattern(value: object) -> bool:
    """Whether this is a function without arguments, cached, that compiles patterns."""
    made = getattr(value, "__annotations__", {}) if hasattr(value, "cache_info") else {}
    compiles = getattr(getattr(value, "__wrapped__", None), "func", None) is re.compile
    return compiles or (list(made) == ["return"] and str(made["return"]).startswith(MADE))


def patterns(module: str) -> dict[str, re.Pattern[str] | re.Pattern[bytes]]:
    """Compiled patterns among the names of a module and the attributes of its classes."""
    found: dict[str, re.Pattern[str] | re.Pattern[bytes]] = {}
    loaded = import_module(module)
    for name, value in vars(loaded).items():
        value = value() if _makes_pattern(value) else value
        owners = [(name, value)]
        if isinstance(value, type) and value.__module__ == module:
            owners += [(f"{name}.{inner}", held) for inner, held in vars(value).items()]
        if isinstance(value, dict):
            owners += [(f"{name}[{inner!r}]", held) for inner, held in value.items()]
        if isinstance(value, list | tuple):
            owners += [(f"{name}[{inner}]", held) for inner, held in enumerate(value)]
        found |= {label: held for label, held in owners if isinstance(held, re.Pattern)}
    return found


def packages() -> dict[str, list[str]]:
    """The modules of each package: a child process checks all of them."""
    found: dict[str, list[str]] = {}
    for name in modules():
        found.setdefault(".".join(name.split(".")[:2]), []).append(name)
    return found


@pytest.mark.parametrize("package", packages())
def test_patterns_take_linear_time(package: str) -> None:
    """In a child process with a limit on its CPU time: a pattern can't be interrupted."""
    command = [sys.executable, "-m", "tests.test_regexes", *packages()[package]]
    child = subprocess.run(command, capture_output=True, text=True)
    last = child.stdout.splitlines()[-1:]
    assert child.returncode == 0, f"{last} backtracks on {child.stderr}"


def test_patterns_are_compiled_where_this_test_sees_them() -> None:
    """`re.sub("...", ...)` and `re.compile` inside a function would go untested."""
    calls = {
        "compile", "match", "search", "sub", "subn", "split", "findall", "finditer", "fullmatch",
    }  # fmt: skip
    hidden = []
    for path in ROOT.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef) and not _is_seen(node)
        ]
        for node in (inner for function in functions for inner in ast.walk(function)):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "re"
                and node.func.attr in calls
            ):
                hidden.append(f"{path.relative_to(ROOT).as_posix()}:{node.lineno}")
    hidden = [name for name in hidden if name.partition(":")[0] not in MADE_OF_INPUT]
    assert not hidden, f"compile these at the top of their modules: {hidden}"


def _is_seen(function: ast.FunctionDef) -> bool:
    """Whether `patterns` calls a function: see `_makes_pattern`."""
    cached = "cache" in map(ast.unparse, function.decorator_list)
    made = ast.unparse(function.returns) if function.returns else ""
    return cached and not function.args.args and made.startswith(MADE)


def _main() -> None:
    import resource

    for module in sys.argv[1:]:
        for name, pattern in patterns(module).items():
            print(module, name, flush=True)
            used = resource.getrusage(resource.RUSAGE_SELF)
            limit = int(used.ru_utime + used.ru_stime + 30)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
            matched = f"{module}.{name}" in ONLY_MATCHED
            for pump in PUMPS:
                for end in ENDS:
                    tries = (_is_fast(pattern, pump, end, matched=matched) for _ in range(3))
                    if not any(tries):  # a busy machine is slow once, a quadratic pattern always
                        sys.exit(f"{pump!r} and {end!r}")


def _is_fast(
    pattern: re.Pattern[str] | re.Pattern[bytes], pump: str, end: str, *, matched: bool
) -> bool:
    text = pump * (LENGTH // len(pump)) + end
    data: str | bytes = text if isinstance(pattern.pattern, str) else text.encode()
    asked = (pattern.match,) if matched else (pattern.search, pattern.fullmatch, pattern.findall)
    started = process_time()
    for ask in asked:
        ask(data)  # type: ignore[arg-type]
    return process_time() - started < SECONDS


if __name__ == "__main__":
    _main()
