from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from lagotto.embedders.catalog import MODELS
from tests.cli.running import run, run_apart
from tests.embedders.tiny_model import make_model, put_tiny
from tests.models.local_hub import LocalHub

FILES = ("tokenizer.json", "onnx/model.onnx")


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAGOTTO_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny model, which the catalog has as gte-small."""
    folder = make_model(tmp_path / "tiny", projected=True)
    hashes = {name: frozenset({sha256((folder / name).read_bytes()).hexdigest()}) for name in FILES}
    put_tiny(monkeypatch, hashes)
    return folder


def states() -> dict[str, str]:
    done = run("models")
    assert (done.code, done.err) == (0, "")
    heading, *rows = done.out.splitlines()
    assert heading.split() == ["name", "state", "dimension", "tokens", "MB", "languages"]
    return {row.split()[0]: row.split()[1] for row in rows}


def test_the_list_says_which_are_present() -> None:
    found = states()
    assert list(found) == list(MODELS)
    assert {name for name, state in found.items() if state == "present"} == {
        "minilm",
        "minilm-int8",
    }


def test_the_list_as_json(models: Path) -> None:
    found = {item["name"]: item for item in run("models", "--json").json}
    assert found["gte-small"] == {
        "name": "gte-small",
        "model_id": "gte-small",
        "state": "missing",
        "folder": str(models / "gte-small"),
        "dimension": 384,
        "max_tokens": 512,
        "cosine_floor": 0.75,
        "alphabets": ["LATIN"],
        "languages": "English",
        "megabytes": 134,
        "repository": "Xenova/gte-small",
    }


def test_fetch_from_a_folder_and_search(folder: Path, notes: Path, models: Path) -> None:
    missing = run("--kb", "mine.db", "--embedder", "gte-small", "add", notes)
    assert missing.code == 4
    assert "run `lagotto models fetch gte-small`" in missing.err
    done = run("models", "fetch", "gte-small", "--from", folder)
    assert (done.code, done.out) == (0, "")
    assert done.err == (
        f"gte-small is in {models / 'gte-small'}; use it with --embedder gte-small\n"
    )
    assert states()["gte-small"] == "present"
    assert run("--kb", "mine.db", "--embedder", "gte-small", "add", notes).code == 0
    assert run("--kb", "mine.db", "retrieve", "truffle", "--json").json["results"]


def test_fetch_from_a_hub_and_quantise(folder: Path, models: Path) -> None:
    files = {f"/Xenova/gte-small/resolve/main/{name}": (folder / name).read_bytes()
             for name in FILES}  # fmt: skip
    with LocalHub(files) as hub:
        done = run("models", "fetch", "gte-small", "--from", hub.url, "--quantise", "--json")
    assert done.json == {"name": "gte-small-int8", "folder": str(models / "gte-small-int8")}
    assert states()["gte-small-int8"] == "present"
    assert states()["gte-small"] == "missing"


def test_a_hub_that_has_it_not() -> None:
    with LocalHub({}) as hub:
        done = run_apart("models", "fetch", "bge-small-en-v1.5", "--from", hub.url)
    assert done.code == 4
    assert "/BAAI/bge-small-en-v1.5/resolve/main/tokenizer.json answered 404" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fetch"], "missing name of the model"),
        (["fetch", "nope"], 'unknown model "nope"; available: minilm, '),
        (["fetch", "../../x"], 'unknown model "../../x"'),
        (["fetch", "gte-small", "--from", "nowhere"], "there is no folder nowhere"),
        (["fetch", "gte-small", "--from", "ftp://x"], "is not the address of a hub"),
        (["--quantise"], "belong to `lagotto models fetch NAME`"),
        (["--from", "x"], "belong to `lagotto models fetch NAME`"),
    ],
)
def test_what_can_not_be_done(arguments: list[str], message: str) -> None:
    done = run("models", *arguments)
    assert done.code == 2
    assert message in done.err
