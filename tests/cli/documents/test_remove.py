from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.cli.running import run

pytestmark = pytest.mark.slow


class Terminal(io.StringIO):
    """Somebody who types."""

    def isatty(self) -> bool:
        return True


def ids(base: Path) -> list[str]:
    return [item["id"] for item in run("--kb", base, "list", "--json").json]


def test_by_id(base: Path) -> None:
    first, second, *rest = ids(base)
    done = run("--kb", base, "remove", first, second, "--yes")
    assert (done.code, done.out) == (0, "2 removed\n")
    assert ids(base) == rest


def test_by_filter_as_json(base: Path) -> None:
    done = run("--kb", base, "remove", "--filters", '{"language": "de"}', "-y", "--json")
    assert len(done.json["removed"]) == 1
    assert len(ids(base)) == 3
    again = run("--kb", base, "remove", "--filters", '{"language": "de"}', "--json")
    assert again.json == {"removed": []}


def test_a_whole_collection(base: Path) -> None:
    assert run("--kb", base, "remove", "--collection", "other", "--yes").out == "0 removed\n"
    assert run("--kb", base, "remove", "--collection", "default", "--yes").out == "4 removed\n"
    assert ids(base) == []


def test_an_unknown_id_removes_nothing(base: Path) -> None:
    before = ids(base)
    done = run("--kb", base, "remove", before[0], "unknown", "--yes")
    assert done.code == 2
    assert done.err.startswith("lagotto: no document has the id, path or title 'unknown'")
    assert ids(base) == before


def test_something_must_be_said(base: Path) -> None:
    done = run("--kb", base, "remove", "--yes")
    assert done.code == 2
    assert done.err.startswith("lagotto: nothing to remove was given")


def test_nobody_to_ask(base: Path) -> None:
    done = run("--kb", base, "remove", "--collection", "default")
    assert done.code == 2
    assert done.err.startswith(f"lagotto: this removes 4 documents from {base};")
    assert len(ids(base)) == 4


@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 0), ("n\n", 1, 4), ("", 1, 4)])
def test_asking(
    base: Path, answer: str, code: int, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    done = run("--kb", base, "remove", "--collection", "default")
    assert done.code == code
    assert f"Remove 4 documents from {base}?" in done.err
    assert len(ids(base)) == left
