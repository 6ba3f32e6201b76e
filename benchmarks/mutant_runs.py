"""Run tests on a changed copy of the repository, in forked processes that have pytest loaded.

Forks save the time to import third-party packages, and, where only the body of a function differs,
the package and its tests too. No module of Lagotto may be imported before.
"""

from __future__ import annotations

import gc
import inspect
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import _lru_cache_wrapper
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import TypeVar

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
WALL_SECONDS = 1200
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
        """The tests that call a function, or any of the file if it has no name, fast ones first."""
        called = f"{path} {function}"
        tests = self.tests.get(called, []) if function else self._of_file(called)
        return sorted(tests, key=lambda test: self.seconds[test])

    def _of_file(self, start: str) -> set[str]:
        return {test for name in self.tests if name.startswith(start) for test in self.tests[name]}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant; `by` is the test that failed, or the limit that it broke."""

    killed: bool
    by: str = ""


NO_RESULT = Verdict(True, f"no result within {CPU_SECONDS} s of CPU time, or a crash")
T = TypeVar("T")


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


class _Failures:
    """The names of tests that fail, and of files that can't be collected."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.names += [report.nodeid] if report.failed else []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.names += [report.nodeid] if report.failed else []


class _Tracer:
    """Notes which functions of the package each test calls."""

    def __init__(self, package: Path) -> None:
        self.package = f"{package}{os.sep}"
        self.root = package.parent.parent
        self.called: dict[str, list[str]] = {}
        self.seconds: dict[str, float] = {}
        self._seen: set[CodeType] = set()

    def _trace(self, frame: FrameType, event: str, argument: object) -> None:
        self._seen.add(frame.f_code)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._seen, started = set(), time.process_time()
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        yield
        sys.settrace(None)
        self.seconds[item.nodeid] = time.process_time() - started
        self.called[item.nodeid] = sorted(
            {
                f"{Path(code.co_filename).relative_to(self.root)} {code.co_name}"
                for code in self._seen
                if code.co_filename.startswith(self.package)
            }
        )


def _enter(tree: Path, *, cached: bool) -> None:
    """Make this process one of its own, in the copied tree, with limits."""
    os.chdir(tree)
    sys.path[:0] = [str(tree / "src"), str(tree)]
    os.environ["PYTHONPATH"] = str(tree / "src")
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = not cached
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    with (tree / "output.txt").open("w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)


def traced(tree: Path, files: Sequence[str]) -> dict[str, Traced]:
    """The coverage of test files, on the unchanged copy; tests that fail are left out."""

    def work() -> dict[str, Traced]:
        _enter(tree, cached=True)
        tracer, failed = _Tracer(tree / "src" / "lagotto"), _Failures()
        pytest.main([*OPTIONS[1:], *files], plugins=[tracer, failed])
        found: dict[str, Traced] = {name: {} for name in files}
        for test, functions in tracer.called.items():
            if test not in failed.names:
                found[test.partition("::")[0]][test] = tracer.seconds[test], functions
        return found

    return in_child(work, {}, seconds=None)


def failures(tree: Path, tests: Sequence[str]) -> list[str]:
    """Those of the tests that fail on the unchanged copy."""

    def work() -> list[str]:
        _enter(tree, cached=True)
        failed = _Failures()
        if tests:
            pytest.main([*OPTIONS[1:], *tests], plugins=[failed])
        return failed.names

    return in_child(work, ["no answer"], seconds=None)


def in_child(work: Callable[[], T], otherwise: T, *, seconds: float | None) -> T:
    """What `work` returns in a forked process; `otherwise` if it crashes or takes too long."""
    receiver, sender = fork.Pipe(duplex=False)

    def send() -> None:
        os.setsid()
        sender.send(work())

    process = fork.Process(target=send)
    process.start()
    sender.close()
    result = otherwise
    if wait([receiver], seconds):
        with suppress(EOFError):
            result = receiver.recv()
    with suppress(ProcessLookupError):
        os.killpg(process.pid or 0, signal.SIGKILL)  # and the processes that it started
    process.join()
    return result


def _judged(work: Callable[[], Verdict]) -> Verdict:
    return in_child(work, NO_RESULT, seconds=WALL_SECONDS)


def _verdict(stages: Sequence[Sequence[str]]) -> Verdict:
    """Run the stages until a test fails."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    for tests in stages:
        failed = _Failures()
        code = pytest.main([*OPTIONS, *tests], plugins=[failed])
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return Verdict(True, next(iter(failed.names), f"pytest ended with {code!r}"))
    return Verdict(False)


@dataclass(frozen=True, slots=True)
class Job:
    """A changed file, and the tests that it meets, in stages."""

    path: str
    text: str
    stages: Sequence[Sequence[str]]


def run_imported(tree: Path, job: Job) -> Verdict:
    """The verdict of a process that imports the changed file; the tree is as before afterwards."""
    file = tree / job.path
    before = file.read_text(encoding="utf-8")
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        compiled.unlink()
    file.write_text(job.text, encoding="utf-8")

    def work() -> Verdict:
        _enter(tree, cached=False)
        return _verdict(job.stages)

    try:
        return _judged(work)
    finally:
        file.write_text(before, encoding="utf-8")


def run_replaced(tree: Path, jobs: Sequence[Job], tests: Sequence[str]) -> Iterator[Verdict]:
    """The verdicts on jobs in which only the body of a function differs.

    Much faster: a process that has collected all tests, and so imported the package, is forked for
    each job, and the functions in its memory get the changed code.
    """
    receiver, sender = fork.Pipe(duplex=False)
    process = fork.Process(target=_serve, args=(tree, jobs, tests, sender))
    process.start()
    sender.close()
    for _ in jobs:
        yield receiver.recv()
    process.join()


def _serve(tree: Path, jobs: Sequence[Job], tests: Sequence[str], sender: Connection) -> None:
    _enter(tree, cached=False)
    pytest.main([*OPTIONS, "--collect-only", *tests])
    for name in {_module(job.path) for job in jobs}:
        import_module(name)
    functions = [item for item in gc.get_objects() if isinstance(item, FunctionType)]
    caches = [item for item in gc.get_objects() if isinstance(item, _lru_cache_wrapper)]
    gc.freeze()  # less work for the collector of each child
    for job in jobs:

        def work(job: Job = job) -> Verdict:
            replace_code(functions, tree / job.path, job.text)
            for cache in caches:
                cache.cache_clear()  # of what the unchanged code returned
            return _verdict(job.stages)

        sender.send(_judged(work))


def _module(path: str) -> str:
    return ".".join(Path(path).with_suffix("").parts[1:]).removesuffix(".__init__")


def replace_code(functions: Iterable[FunctionType], file: Path, text: str) -> None:
    """Give the functions of an imported file the code that they have in `text`."""
    live = [one for one in functions if one.__code__.co_filename == str(file)]
    by_name: dict[str, list[FunctionType]] = defaultdict(list)
    for function in sorted(live, key=lambda function: function.__code__.co_firstlineno):
        by_name[function.__qualname__].append(function)
    for code in _outermost(compile(text, str(file), "exec")):
        if by_name[code.co_qualname]:
            by_name[code.co_qualname].pop(0).__code__ = code


def _outermost(code: CodeType) -> Iterator[CodeType]:
    """The code of functions and methods, without what is inside of them, in order."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            is_class = not inner.co_flags & inspect.CO_NEWLOCALS
            yield from _outermost(inner) if is_class else [inner]
