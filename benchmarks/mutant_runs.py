"""Run tests on a changed copy of the repository, in forked processes that have pytest loaded.

Forks save the time to import third-party packages. No module of Lagotto may be imported before:
each fork imports its own copy.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import CodeType, FrameType

import pytest

PRELOADED = (
    "hypothesis", "httpx", "lxml.etree", "markdown_it", "numpy", "onnxruntime", "psycopg",
    "py3langid", "pydantic", "pytest_asyncio.plugin", "sentencex", "sqlalchemy.orm",
    "sqlalchemy.ext.asyncio", "Stemmer", "tantivy", "tokenizers", "typer", "rich.progress",
)  # fmt: skip
OPTIONS = (
    "-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist",
    "-W", "ignore::pytest.PytestAssertRewriteWarning", "-m", "not slow and not server",
    "--hypothesis-profile", "fast",
)  # fmt: skip
CPU_SECONDS = 60
WALL_SECONDS = 400
MEMORY = 4_000_000_000

fork = multiprocessing.get_context("fork")


Traced = dict[str, tuple[float, list[str]]]
"""Tests, each with its seconds and the functions that it calls, as `path function`."""


@dataclass(slots=True)
class Coverage:
    """The tests that call each function, and how long each test takes."""

    seconds: dict[str, float]
    tests: dict[str, list[str]]

    @classmethod
    def of_files(cls, files: Iterable[Traced]) -> Coverage:
        """The coverage of several test files."""
        coverage = cls({}, defaultdict(list))
        for traced in files:
            for test, (seconds, functions) in traced.items():
                coverage.seconds[test] = seconds
                for function in functions:
                    coverage.tests[function].append(test)
        return coverage

    def of(self, path: str, function: str) -> list[str]:
        """The tests that call a function, fast ones first."""
        tests = self.tests.get(f"{path} {function}", ())
        return sorted(tests, key=lambda test: self.seconds[test])


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant; `by` is the test that failed, or the limit that it broke."""

    killed: bool
    by: str = ""


def preload() -> None:
    """Import what tests import, besides Lagotto itself."""
    for name in PRELOADED:
        import_module(name)


def copy(repository: Path, place: Path) -> Path:
    """Copy the files that git knows or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=repository, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    for name in listed:
        if (repository / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(repository / name, place / name)
    return place


class _FirstFailure:
    def __init__(self) -> None:
        self.name = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid


class _Tracer:
    """Notes which functions of the package each test calls."""

    def __init__(self, package: Path) -> None:
        self.package = f"{package}{os.sep}"
        self.root = package.parent.parent
        self.called: dict[str, list[str]] = {}
        self.seconds: dict[str, float] = defaultdict(float)
        self._seen: set[CodeType] = set()

    def _trace(self, frame: FrameType, event: str, argument: object) -> None:
        self._seen.add(frame.f_code)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._seen = set()
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        yield
        sys.settrace(None)
        self.called[item.nodeid] = sorted(
            {
                f"{Path(code.co_filename).relative_to(self.root)} {code.co_name}"
                for code in self._seen
                if code.co_filename.startswith(self.package)
            }
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration


def _enter(tree: Path, *, cached: bool) -> None:
    """Make this process one of its own, in the copied tree, with limits."""
    os.setsid()
    os.nice(5)
    os.chdir(tree)
    sys.path[:0] = [str(tree / "src"), str(tree)]
    os.environ["PYTHONPATH"] = str(tree / "src")
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = not cached
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    with (tree / "output.txt").open("w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)


def _baseline(tree: Path, tests: Sequence[str], sender: Connection) -> None:
    _enter(tree, cached=True)
    tracer = _Tracer(tree / "src" / "lagotto")
    failure = _FirstFailure()
    code = pytest.main([*OPTIONS, *tests], plugins=[tracer, failure])
    traced: dict[str, Traced] = defaultdict(dict)
    for test, functions in tracer.called.items():
        traced[test.partition("::")[0]][test] = tracer.seconds[test], functions
    sender.send((int(code), failure.name, dict(traced)))


def baseline(tree: Path, tests: Sequence[str]) -> dict[str, Traced]:
    """Run test files on the unchanged copy, traced; SystemExit if a test fails."""
    receiver, sender = fork.Pipe(duplex=False)
    process = fork.Process(target=_baseline, args=(tree, tests, sender))
    process.start()
    sender.close()
    try:
        code, failed, traced = receiver.recv()
    except EOFError:
        code, failed, traced = -1, "no answer", {}
    process.join()
    if code:
        log = (tree / "output.txt").read_text()[-4000:]
        raise SystemExit(f"{log}\nthe unchanged code fails: {failed}")
    found: dict[str, Traced] = traced
    return found


def _try_stages(tree: Path, stages: Sequence[Sequence[str]], sender: Connection) -> None:
    _enter(tree, cached=False)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    for tests in stages:
        failure = _FirstFailure()
        code = pytest.main([*OPTIONS, *tests], plugins=[failure])
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            sender.send(failure.name or f"pytest ended with {code!r}")
            return
    sender.send("")


def run(tree: Path, stages: Sequence[Sequence[str]]) -> Verdict:
    """Run tests on a mutant: killed by one that fails or by a limit, else it has survived."""
    receiver, sender = fork.Pipe(duplex=False)
    process = fork.Process(target=_try_stages, args=(tree, stages, sender))
    process.start()
    sender.close()
    by = f"no result within {WALL_SECONDS} s"
    if wait([receiver], WALL_SECONDS):
        try:
            by = receiver.recv()
        except EOFError:
            by = f"over {CPU_SECONDS} s of CPU time, or crashed"
    with suppress(ProcessLookupError):
        os.killpg(process.pid or 0, signal.SIGKILL)  # and the processes that it started
    process.join()
    return Verdict(bool(by), by)
