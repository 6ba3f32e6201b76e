from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import lagotto
from lagotto.base.blocking import KnowledgeBase
from lagotto.cli.options import BaseOptions, MakingOptions, ReadingOptions
from tests.cli.running import command, run, run_apart

pytestmark = pytest.mark.slow

HEAVY = {"numpy", "onnxruntime", "tokenizers", "sqlalchemy", "tantivy", "lxml", "httpx"}


def test_version_is_printed_by_a_process_of_its_own() -> None:
    done = run_apart("--version")
    assert (done.code, done.out, done.err) == (0, f"lagotto {lagotto.__version__}\n", "")


@pytest.mark.parametrize("arguments", [["--help"], ["add", "--help"], ["--version"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = f"import sys; from lagotto.cli import main; main({arguments}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stdout.splitlines()[-1].split())


def test_defaults_are_those_of_the_library() -> None:
    from lagotto.documents import DEFAULT_COLLECTION

    assert BaseOptions().embedder is None
    assert MakingOptions() == MakingOptions(chunker=None, pooling=None, text_index=None)
    assert ReadingOptions().collection == DEFAULT_COLLECTION


@pytest.mark.parametrize(
    "arguments",
    [["search", "x"], ["list"], ["show", "x"], ["remove", "x", "--yes"], ["info"]],
    ids=lambda arguments: arguments[0],
)
def test_reading_a_base_that_is_not_there_makes_none(arguments: list[str], tmp_path: Path) -> None:
    done = run("--kb", "none.db", *arguments)
    assert done.code == 5
    assert done.out == ""
    assert done.err.startswith("lagotto: there is no base at none.db; create one with `lagotto")
    assert list(tmp_path.iterdir()) == []


def test_the_environment_names_the_base(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAGOTTO_KB", str(base))
    assert run("info", "--json").json["documents"] == 4
    assert run("info", "--json", "--kb", "other.db").code == 5
    assert run("--kb", "other.db", "info", "--json").code == 5


def test_the_embedder_may_stand_on_either_side(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = run("--kb", base, "--embedder", "nonsense", "search", "x")
    behind = run("--kb", base, "search", "x", "--embedder", "nonsense")
    monkeypatch.setenv("LAGOTTO_EMBEDDER", "nonsense")
    around = run("--kb", base, "search", "x")
    assert before == behind == around
    assert before.code == 2
    assert before.err.startswith('lagotto: unknown embedder "nonsense"')


def test_a_wrong_option_is_a_usage_error(base: Path) -> None:
    done = run("--kb", base, "search", "x", "--mode", "psychic")
    assert done.code == 2
    assert "'hybrid', 'semantic', 'keyword'" in done.err


def test_the_unexpected_is_one_line(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: KnowledgeBase) -> None:
        raise RuntimeError("the moon\nis full")

    monkeypatch.setattr(KnowledgeBase, "info", broken)
    done = run("--kb", base, "info")
    assert done.code == 70
    assert done.err.splitlines() == [
        "lagotto: unexpected error: RuntimeError: the moon is full "
        "(set LAGOTTO_DEBUG=1 to see the traceback)"
    ]
    monkeypatch.setenv("LAGOTTO_DEBUG", "1")
    assert run("--kb", base, "info").err.startswith("Traceback")


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_closed_pipe_is_silent(base: Path, form: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        done = subprocess.run(
            command(["--kb", base, "list", *form]), stdout=pipe, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (1, "")


def test_a_narrow_encoding_loses_letters_but_not_the_command(base: Path) -> None:
    done = subprocess.run(
        command(["--kb", base, "search", "Gewitter", "--mode", "keyword"]),
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert "fr?h" in done.stdout


def test_an_unknown_command_comes_with_the_nearest_name() -> None:
    refused = run("retreive", "dogs")
    assert refused.code == 2
    assert "No such command 'retreive'; did you mean retrieve?" in refused.err
