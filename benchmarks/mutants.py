"""Change formulas, defaults and behaviours one at a time, and see whether a test fails.

    python benchmarks mutants --count 400 --seed 1

A changed file is a mutant; it is killed if a test fails. Every value of the presets is changed, and
a sample, drawn by the seed, of what `mutations.py` can change in the modules listed here. A mutant
meets the tests of its own module first, then all others that call the changed function, fast ones
first. Survivors are printed with their line; `surviving_mutants.toml` says why each may live, and
those are not tried again. The exit status is 1 if fewer than 95 % are killed, or one survives
without a reason.

Verdicts are kept in `.mutants/`: of a killed one while the file and the test function that killed
it are as they were, of a survivor while all tests are.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import random
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache, partial
from itertools import chain
from pathlib import Path

from mutant_runs import (
    Coverage,
    Job,
    Verdict,
    copy,
    failures,
    preload,
    run_imported,
    run_replaced,
    traced,
)
from mutations import Mutation, mutations

ROOT = Path(__file__).parent.parent
PACKAGE = "src/lagotto"
PRESETS = f"{PACKAGE}/presets"
MODULES = (
    "prefs.py", "results.py", "filters.py", "retrieval/**/*.py", "context/**/*.py",
    "rerankers/**/*.py", "terms/**/*.py", "chunkers/**/*.py", "indexes/**/*.py",
    "stores/sql/**/*.py",
)  # fmt: skip
"""Where formulas, defaults and rules are; each pattern matches a module at least."""
LEFT_OUT = (
    "*/__init__.py", "retrieval/builder.py", "retrieval/tracing.py",
    "rerankers/cross_encoder.py", "rerankers/api.py", "terms/analyzer.py", "terms/languages.py",
    "indexes/qdrant/*", "indexes/pinecone.py",
)  # fmt: skip
"""Among these, what only connects parts, runs a model, or needs a server."""
TESTS = (
    "tests/conformance", "tests/context", "tests/filters", "tests/retrieval", "tests/rerankers",
    "tests/terms", "tests/chunkers", "tests/indexes/tantivy", "tests/indexes/vectors",
    "tests/indexes/pinecone", "tests/indexes/test_base.py", "tests/indexes/test_bm25.py",
    "tests/indexes/test_contract.py", "tests/indexes/test_overlay.py",
    "tests/indexes/test_pushdown.py", "tests/indexes/test_registry.py",
    "tests/indexes/test_updater.py", "tests/stores/sql",
    "tests/stores/sqlite", "tests/stores/test_contract.py", "tests/test_prefs.py",
    "tests/test_presets.py", "tests/test_results.py", "tests/base",
)  # fmt: skip
TESTS_OF_PRESETS = ("tests/test_presets.py", "tests/conformance")
LEAST_KILLED = 0.95
MOST_SECONDS, LAST_SECONDS = 4.0, 12.0
"""The CPU time of the tests of a stage, and of the last one, as measured on the unchanged code."""
FEW_TESTS = 20
"""A function that fewer tests call may be behind a cache, which the first test of each process
fills: such a mutant also meets the other tests of its file."""
FILES_AT_ONCE = 12
"""Test files that are traced by one process; what they call is kept after each."""
STORED = ROOT / ".mutants" / "verdicts.jsonl"
COVERED = ROOT / ".mutants" / "coverage.json"
REASONS = Path(__file__).with_name("surviving_mutants.toml")


def main() -> int:
    """Draw a sample, try it, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=400, help="mutants, besides those of presets")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="files whose path has this part")
    parser.add_argument(
        "--part",
        type=int,
        nargs=2,
        default=(1, 1),
        metavar=("I", "N"),
        help="try the I-th of N parts only; several can run side by side",
    )
    options = parser.parse_args()
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in sources(options.only)}
    chosen = sample(texts, options.count, options.seed)
    results = Results(STORED)
    part, parts = options.part
    chosen = chosen[part - 1 :: parts]
    expected = reasons()  # to survive: not tried
    unknown = [
        mutant
        for mutant in chosen
        for text in [texts[mutant.path]]
        if (mutant.path, *mutant.lines(text)) not in expected
        and results.known(mutant, text) is None
    ]
    print(f"{len(chosen)} mutants, {len(chosen) - len(unknown)} of them known", flush=True)
    if unknown:
        try_all(unknown, texts, results)
    return report(chosen, texts, results)


def sources(only: str) -> Iterator[str]:
    """The files that are changed."""
    folder = ROOT / PACKAGE
    found = [*sorted((ROOT / PRESETS).glob("*.toml"))]
    for pattern in MODULES:
        matched = sorted(folder.glob(pattern))
        if not matched:
            raise SystemExit(f"no module matches {pattern!r} of MODULES")
        names = {path: path.relative_to(folder).as_posix() for path in matched}
        found += [
            path for path, name in names.items() if not any(map(partial(fnmatch, name), LEFT_OUT))
        ]
    paths = (str(path.relative_to(ROOT)) for path in found)
    return (path for path in paths if only in path)


def sample(texts: dict[str, str], count: int, seed: int) -> list[Mutation]:
    """All mutants of the presets, and `count` others, of each file as many as its share."""
    found = {path: mutations(path, text) for path, text in texts.items()}
    presets = [mutant for path in found if path.endswith(".toml") for mutant in found[path]]
    others = {path: each for path, each in found.items() if not path.endswith(".toml")}
    total = sum(map(len, others.values()))
    chosen = []
    for path, each in others.items():
        share = min(len(each), max(1, round(count * len(each) / max(1, total))))
        chosen += random.Random(f"{seed} {path}").sample(each, share)
    return presets + sorted(chosen)


@dataclass(slots=True)
class Results:
    """Verdicts of earlier runs, kept in a file."""

    path: Path
    _stored: dict[str, list[str]] = field(default_factory=dict)
    _tests: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.path.parent.mkdir(exist_ok=True)
        if self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                self._stored |= json.loads(line)
        for path in sorted((ROOT / "tests").rglob("*.py")):
            self._tests[str(path.relative_to(ROOT))] = _digest(path.read_text(encoding="utf-8"))

    def known(self, mutant: Mutation, text: str) -> Verdict | None:
        """The verdict on a mutant, if what it depends on has not changed."""
        by, tests = self._stored.get(self._key(mutant, text), ("", ""))
        return Verdict(bool(by), by) if tests and tests == self._state(by) else None

    def add(self, mutant: Mutation, text: str, verdict: Verdict) -> None:
        """Keep a verdict."""
        entry = {self._key(mutant, text): [verdict.by, self._state(verdict.by)]}
        self._stored |= entry
        with self.path.open("a", encoding="utf-8") as file:  # other parts may append to it too
            file.write(json.dumps(entry) + "\n")

    def _key(self, mutant: Mutation, text: str) -> str:
        return f"{mutant.path} {_digest(mutant.apply(text))}"

    def _state(self, by: str) -> str:
        """The state of the test that killed, or of all tests."""
        path, _, name = by.partition("::")
        if path not in self._tests:
            return _digest(json.dumps(self._tests))
        function = name.partition("[")[0].rpartition("::")[2]
        return _digest("".join(_sources(path).get(function, [self._tests[path]])))


@cache
def _sources(path: str) -> dict[str, list[str]]:
    """The source of the test functions of a file, by name; two classes may share a name."""
    text = (ROOT / path).read_text(encoding="utf-8")
    found: dict[str, list[str]] = defaultdict(list)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name].append(ast.get_source_segment(text, node) or "")
    return found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def try_all(mutants: Sequence[Mutation], texts: dict[str, str], results: Results) -> None:
    """Run the tests on each mutant, in a copy of the repository."""
    preload()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = copy(ROOT, Path(folder).resolve())
        coverage = covered(tree)
        print(f"{len(coverage.seconds)} tests pass, {time.monotonic() - started:.0f} s", flush=True)
        jobs = {
            mutant: Job(mutant.path, mutant.apply(text), stages(mutant, coverage))
            for mutant in mutants
            for text in [texts[mutant.path]]
        }
        replaced = [mutant for mutant in mutants if mutant.function]
        imported = [mutant for mutant in mutants if not mutant.function]
        verdicts = chain(
            run_replaced(tree, [jobs[mutant] for mutant in replaced], TESTS),
            (run_imported(tree, jobs[mutant]) for mutant in imported),
        )
        for mutant, verdict in zip(replaced + imported, verdicts, strict=True):
            results.add(mutant, texts[mutant.path], verdict)
            if not verdict.killed:
                print(described(mutant, texts[mutant.path]), flush=True)
        confirm(tree, [results.known(mutant, texts[mutant.path]) for mutant in mutants])
    print(f"{len(mutants)} mutants in {time.monotonic() - started:.0f} s", flush=True)


def confirm(tree: Path, verdicts: Sequence[Verdict | None]) -> None:
    """Make sure that the tests that killed pass on the unchanged code; SystemExit if one fails."""
    killers = sorted({found.by for found in verdicts if found is not None and "::" in found.by})
    failed = failures(tree, killers)
    if failed:
        STORED.unlink()
        raise SystemExit(f"these tests fail on the unchanged code: {', '.join(failed)}")


def covered(tree: Path) -> Coverage:
    """Which tests call what; only test files that have changed since the last time are run."""
    found = [tree / name for name in TESTS]
    files = {
        str(path.relative_to(tree)): _digest(path.read_text(encoding="utf-8"))
        for each in found
        for path in (sorted(each.rglob("test_*.py")) if each.is_dir() else [each])
    }
    stored = json.loads(COVERED.read_text(encoding="utf-8")) if COVERED.exists() else {}
    known = {name: one for name, one in stored.items() if files.get(name) == one["digest"]}
    fresh = [name for name in files if name not in known]
    for start in range(0, len(fresh), FILES_AT_ONCE):
        for name, tests in traced(tree, fresh[start : start + FILES_AT_ONCE]).items():
            known[name] = {"digest": files[name], "tests": tests}
        COVERED.write_text(json.dumps(known), encoding="utf-8")
    return Coverage.of_files(one["tests"] for one in known.values())


def stages(mutant: Mutation, coverage: Coverage) -> list[list[str]]:
    """The tests that a mutant meets: those of its module, then others that call what changed."""
    if mutant.path.startswith(PRESETS):
        return [[tests] for tests in TESTS_OF_PRESETS]
    folder, _, name = mutant.path.replace(PACKAGE, "tests").rpartition("/")
    tests = coverage.of(mutant.path, mutant.function)
    if len(tests) < FEW_TESTS:
        tests += [test for test in coverage.of(mutant.path, "") if test not in tests]
    nearest = [f"{folder}/test_{name}", f"{folder}/", "tests/conformance/", ""]
    if not mutant.function:  # the fields of a record are no function that a test could call
        own = (test for test in coverage.seconds if test.startswith(nearest[0]))
        tests += [test for test in own if test not in tests]
    limits = [MOST_SECONDS] * 3 + [LAST_SECONDS]
    found: list[list[str]] = []
    for start, left in zip(nearest, limits, strict=True):
        chosen = []
        for test in tests:
            if test.startswith(start) and coverage.seconds[test] <= left:
                left -= coverage.seconds[test]
                chosen.append(test)
        tests = [test for test in tests if test not in chosen]
        found += [chosen] if chosen else []
    return found


def described(mutant: Mutation, text: str) -> str:
    """A mutant as its place and its line before and after."""
    before, after = mutant.lines(text)
    return f"{mutant.path}:{mutant.line(text)}\n  - {before}\n  + {after}"


def reasons() -> dict[tuple[str, str, str], str]:
    """Why mutants may live, by path and by their line before and after."""
    listed = tomllib.loads(REASONS.read_text(encoding="utf-8"))["mutant"]
    return {(each["path"], each["before"], each["after"]): each["reason"] for each in listed}


def report(chosen: Sequence[Mutation], texts: dict[str, str], results: Results) -> int:
    """Print the figures by file and the survivors; the exit status."""
    explained = reasons()
    tried, killed, unexplained = Counter[str](), Counter[str](), 0
    for mutant in chosen:
        text = texts[mutant.path]
        verdict = results.known(mutant, text)
        tried[mutant.path] += 1
        killed[mutant.path] += verdict is not None and verdict.killed
        if verdict is None or not verdict.killed:
            reason = explained.get((mutant.path, *mutant.lines(text)))
            unexplained += reason is None
            print(f"survived: {described(mutant, text)}\n  {reason or 'NO REASON GIVEN'}")
    for path in sorted(tried):
        print(f"{killed[path]:5} of {tried[path]:3} killed  {path}")
    for path, before, _ in explained:
        if before not in texts.get(path, before):
            print(f"the reason for a line that is gone: {path}: {before}")
    share = killed.total() / max(1, tried.total())
    print(
        f"{killed.total():5} of {tried.total():3} killed: {share:.1%}, {unexplained} without reason"
    )
    return int(share < LEAST_KILLED or unexplained > 0)
