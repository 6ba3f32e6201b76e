"""Change formulas, defaults and behaviours one at a time, and see whether a test fails.

    python benchmarks/mutants.py --count 400 --seed 1

A changed file is a mutant; it is killed if a test fails. Every value of the presets is changed, and
a sample, drawn by the seed, of what `mutations.py` can change in the modules listed here. A mutant
meets the tests of its own module first, then all others that call the changed function, fast ones
first. Survivors are printed with their line; `surviving_mutants.toml` says why each may live. The
exit status is 1 if fewer than 95 % are killed, or one survives without a reason.

Verdicts are kept in `.mutants/`: of a killed one while the file and the test that killed it are as
they were, of a survivor while all tests are.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mutant_runs import Coverage, Verdict, baseline, copy, preload, run
from mutations import Mutation, mutations

ROOT = Path(__file__).parent.parent
PACKAGE = "src/lagotto"
PRESETS = f"{PACKAGE}/presets"
MODULES = (
    "prefs.py", "results.py",
    "retrieval/fusion.py", "retrieval/ranking.py", "retrieval/recall.py", "retrieval/pipeline.py",
    "retrieval/rerank.py", "retrieval/parents.py", "retrieval/diversity.py", "retrieval/bundle.py",
    "retrieval/grouping.py", "retrieval/snippets.py", "retrieval/query_plan.py",
    "retrieval/query", "retrieval/late_candidates.py",
    "context/budget.py", "context/cite.py", "context/neighbours.py", "context/pack.py",
    "context/passages.py", "context/trace.py",
    "rerankers/base.py", "rerankers/score.py", "rerankers/overlap.py", "rerankers/wrappers.py",
    "rerankers/llm",
    "filters", "stores/sql/filters.py", "stores/sql/chunk_cache.py",
    "indexes/bm25.py", "terms/similarity.py", "terms/words.py",
)  # fmt: skip
"""Where formulas, defaults and rules are; folders with all their modules."""
TESTS = (
    "tests/conformance", "tests/context", "tests/filters", "tests/retrieval", "tests/rerankers",
    "tests/terms", "tests/indexes/test_contract.py", "tests/stores/sql",
    "tests/stores/test_contract.py", "tests/test_prefs.py", "tests/test_presets.py",
    "tests/test_results.py", "tests/test_knowledge_base.py",
)  # fmt: skip
FIRST = {
    PRESETS: ("tests/conformance",),
    f"{PACKAGE}/prefs.py": ("tests/test_prefs.py", "tests/conformance"),
    f"{PACKAGE}/retrieval/": ("tests/retrieval",),
    f"{PACKAGE}/context/": ("tests/context",),
    f"{PACKAGE}/filters/": ("tests/filters",),
    f"{PACKAGE}/rerankers/": ("tests/rerankers",),
    f"{PACKAGE}/terms/": ("tests/terms",),
}
"""The tests of values that exist before any function is called, by the start of a path."""
LEAST_KILLED = 0.95
MOST_SECONDS = 25.0
"""The time of the tests that a mutant meets, as measured on the unchanged code."""
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
    unknown = [mutant for mutant in chosen if results.known(mutant, texts[mutant.path]) is None]
    print(f"{len(chosen)} mutants, {len(chosen) - len(unknown)} of them known", flush=True)
    if unknown:
        try_all(unknown, texts, results)
    return report(chosen, texts, results)


def sources(only: str) -> Iterator[str]:
    """The files that are changed."""
    folder = ROOT / PACKAGE
    found = [*sorted((ROOT / PRESETS).glob("*.toml"))]
    for name in MODULES:
        found += [folder / name] if name.endswith(".py") else sorted((folder / name).glob("*.py"))
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
        killer = by.partition("::")[0]
        return self._tests.get(killer) or _digest(json.dumps(self._tests))


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
        for mutant in mutants:
            verdict = try_one(mutant, texts[mutant.path], tree, coverage)
            results.add(mutant, texts[mutant.path], verdict)
            if not verdict.killed:
                print(described(mutant, texts[mutant.path]), flush=True)
    print(f"{len(mutants)} mutants in {time.monotonic() - started:.0f} s", flush=True)


def covered(tree: Path) -> Coverage:
    """Which tests call what; only test files that are new since the last time are run."""
    package = _digest("".join(path.read_text() for path in sorted((tree / PACKAGE).rglob("*.py"))))
    found = [tree / name for name in TESTS]
    files = {
        str(path.relative_to(tree)): _digest(package + path.read_text(encoding="utf-8"))
        for each in found
        for path in (sorted(each.rglob("test_*.py")) if each.is_dir() else [each])
    }
    stored = json.loads(COVERED.read_text(encoding="utf-8")) if COVERED.exists() else {}
    known = {name: one for name, one in stored.items() if files.get(name) == one["digest"]}
    fresh = [name for name in files if name not in known]
    if fresh:
        by_file = baseline(tree, fresh)
        known |= {name: {"digest": files[name], "tests": by_file.get(name, {})} for name in fresh}
        COVERED.write_text(json.dumps(known), encoding="utf-8")
    return Coverage.of_files(one["tests"] for one in known.values())


def try_one(mutant: Mutation, text: str, tree: Path, coverage: Coverage) -> Verdict:
    """The verdict of the tests on one mutant; the copy is as before afterwards."""
    file = tree / mutant.path
    file.write_text(mutant.apply(text), encoding="utf-8")
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        compiled.unlink()
    try:
        return run(tree, stages(mutant, tree, coverage))
    finally:
        file.write_text(text, encoding="utf-8")


def stages(mutant: Mutation, tree: Path, coverage: Coverage) -> list[list[str]]:
    """The tests that a mutant meets: those of its module, then the others."""
    own = mutant.path.replace(PACKAGE, "tests").replace(Path(mutant.path).name, "")
    own += f"test_{Path(mutant.path).stem}.py"
    first = [own] if (tree / own).exists() else []
    if mutant.function:
        tests = coverage.of(mutant.path, mutant.function)
        mine = [test for test in tests if test.partition("::")[0] in first]
        return [each for each in (mine, _within(tests, mine, coverage)) if each]
    broad = next((tests for start, tests in FIRST.items() if mutant.path.startswith(start)), TESTS)
    return [each for each in (first, list(broad)) if each]


def _within(tests: Sequence[str], but: Sequence[str], coverage: Coverage) -> list[str]:
    """The fastest tests that take no more than MOST_SECONDS in all."""
    left, chosen = MOST_SECONDS, []
    for test in tests:
        if test not in but and coverage.seconds[test] <= left:
            left -= coverage.seconds[test]
            chosen.append(test)
    return chosen


def described(mutant: Mutation, text: str) -> str:
    """A mutant as its place and its line before and after."""
    before, after = mutant.lines(text)
    return f"{mutant.path}:{mutant.line(text)}\n  - {before}\n  + {after}"


def report(chosen: Sequence[Mutation], texts: dict[str, str], results: Results) -> int:
    """Print the figures by file and the survivors; the exit status."""
    listed = tomllib.loads(REASONS.read_text(encoding="utf-8"))["mutant"]
    reasons = {(each["path"], each["before"], each["after"]): each["reason"] for each in listed}
    tried, killed, unexplained = Counter[str](), Counter[str](), 0
    for mutant in chosen:
        text = texts[mutant.path]
        verdict = results.known(mutant, text)
        tried[mutant.path] += 1
        killed[mutant.path] += verdict is not None and verdict.killed
        if verdict is None or not verdict.killed:
            reason = reasons.get((mutant.path, *mutant.lines(text)))
            unexplained += reason is None
            print(f"survived: {described(mutant, text)}\n  {reason or 'NO REASON GIVEN'}")
    for path in sorted(tried):
        print(f"{killed[path]:5} of {tried[path]:3} killed  {path}")
    share = killed.total() / max(1, tried.total())
    print(
        f"{killed.total():5} of {tried.total():3} killed: {share:.1%}, {unexplained} without reason"
    )
    return int(share < LEAST_KILLED or unexplained > 0)


if __name__ == "__main__":
    sys.exit(main())
