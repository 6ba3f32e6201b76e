from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from lagotto.errors import ConfigError, WeightsError
from lagotto.models.fetch import HUB, Transfer, hub_address, hub_client, hub_path
from lagotto.models.http import RetryPolicy
from tests.models.local_hub import Fault, LocalHub

CONTENT = bytes(range(256)) * 1000
PATH = hub_path("people/model", "main", "onnx/model.onnx")
QUICK = RetryPolicy(tries=3, timeout=5.0, pause=0.001)


@pytest.fixture
def hub() -> Iterator[LocalHub]:
    with LocalHub({PATH: CONTENT}) as hub:
        yield hub


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "model.part"


def download(
    hub: LocalHub | str,
    target: Path,
    *,
    most_bytes: int = 10**6,
    retry: RetryPolicy = QUICK,
    report: Callable[[int, int | None], None] | None = None,
) -> str | None:
    address = hub if isinstance(hub, str) else hub.url
    with hub_client() as client:
        return Transfer(client, address + PATH, target, most_bytes, report).run(retry=retry)


def left(target: Path) -> list[str]:
    return sorted(path.name for path in target.parent.iterdir()) if target.parent.exists() else []


def test_a_file_by_repository_revision_and_path(hub: LocalHub, target: Path) -> None:
    assert download(hub, target) is None
    assert target.read_bytes() == CONTENT
    assert hub.fetched == [(PATH, None)]
    assert left(target) == ["model.part"]


def test_names_are_quoted() -> None:
    quoted = "/people/model/resolve/refs%2Fpr%2F1/a%20b%3F.onnx"
    assert hub_path("people/model", "refs/pr/1", "a b?.onnx") == quoted


def test_progress(hub: LocalHub, target: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    download(hub, target, report=lambda *now: seen.append(now))
    assert seen[-1] == (len(CONTENT), len(CONTENT))


def test_the_hash_that_the_hub_publishes(hub: LocalHub, target: Path) -> None:
    hub.linked = {PATH: sha256(CONTENT).hexdigest()}
    assert download(hub, target) == sha256(CONTENT).hexdigest()


def test_an_etag_that_is_no_hash(hub: LocalHub, target: Path) -> None:
    hub.linked = {PATH: "W/abc"}
    assert download(hub, target) is None


def test_a_redirect_is_followed(hub: LocalHub, target: Path) -> None:
    hub.files["/storage/1"] = CONTENT
    hub.faults.append(Fault(location="/storage/1"))
    download(hub, target)
    assert target.read_bytes() == CONTENT


def test_redirects_without_end(hub: LocalHub, target: Path) -> None:
    hub.faults.extend([Fault(location=PATH)] * 50)
    with pytest.raises(WeightsError, match="redirects too often"):
        download(hub, target)


def test_a_connection_that_ends_is_resumed(hub: LocalHub, target: Path) -> None:
    hub.faults.extend([Fault(sent=100_000), Fault(sent=50_000)])
    download(hub, target)
    assert target.read_bytes() == CONTENT
    assert [range_ for _, range_ in hub.fetched] == [None, "bytes=100000-", "bytes=150000-"]


def test_the_next_call_resumes(hub: LocalHub, target: Path) -> None:
    hub.faults.extend([Fault(sent=100_000), Fault(sent=0), Fault(sent=0)])
    with pytest.raises(WeightsError, match=r"try 3 of 3.*run the command again"):
        download(hub, target)
    assert target.stat().st_size == 100_000
    download(hub, target)
    assert target.read_bytes() == CONTENT
    assert hub.fetched[-1] == (PATH, "bytes=100000-")
    assert left(target) == ["model.part"]


def test_a_file_that_has_changed_meanwhile_is_not_continued(hub: LocalHub, target: Path) -> None:
    hub.faults.extend([Fault(sent=100_000)] + [Fault(sent=0)] * 2)
    with pytest.raises(WeightsError):
        download(hub, target)
    hub.files[PATH] = CONTENT[::-1]
    download(hub, target)
    assert target.read_bytes() == CONTENT[::-1]


def test_without_an_etag_nothing_is_resumed(hub: LocalHub, target: Path) -> None:
    hub.etags = False
    hub.faults.append(Fault(sent=100_000))
    download(hub, target)
    assert target.read_bytes() == CONTENT
    assert [range_ for _, range_ in hub.fetched] == [None, None]


def test_a_partial_file_that_is_too_long(hub: LocalHub, target: Path) -> None:
    hub.faults.append(Fault(sent=100_000))
    with pytest.raises(WeightsError):
        download(hub, target, retry=RetryPolicy(tries=1))
    target.write_bytes(CONTENT + b"more")
    download(hub, target)
    assert target.read_bytes() == CONTENT


def test_the_wrong_range_is_not_used(hub: LocalHub, target: Path) -> None:
    hub.faults.extend([Fault(sent=100_000), Fault(content_range="bytes 0-99/256000")])
    download(hub, target)
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_passing_failure_is_tried_again(hub: LocalHub, target: Path, status: int) -> None:
    hub.faults.append(Fault(status=status))
    download(hub, target)
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_lasting_failure_is_not(hub: LocalHub, target: Path, status: int) -> None:
    hub.faults.append(Fault(status=status))
    with pytest.raises(WeightsError, match=rf"{PATH} answered {status} .*--from FOLDER"):
        download(hub, target)
    assert len(hub.fetched) == 1
    assert left(target) == []


def test_a_huge_file_is_refused_before_it_is_sent(hub: LocalHub, target: Path) -> None:
    with pytest.raises(WeightsError, match=r"256,000 bytes or more.* at most 255,999"):
        download(hub, target, most_bytes=len(CONTENT) - 1)
    assert left(target) == []


def test_a_huge_file_of_unknown_length_is_cut_off(hub: LocalHub, target: Path) -> None:
    hub.faults.append(Fault(chunked=True))
    with pytest.raises(WeightsError, match="at most 1,000"):
        download(hub, target, most_bytes=1000)
    assert left(target) == []


def test_nobody_listens(target: Path) -> None:
    with LocalHub({}) as gone:
        url = gone.url
    with pytest.raises(WeightsError, match=r"can't download http://127\.0\.0\.1:\d+/people"):
        download(url, target)


def test_a_password_is_not_shown(target: Path) -> None:
    with pytest.raises(WeightsError) as caught:
        download("http://me:secret@127.0.0.1:1", target)
    assert "secret" not in str(caught.value)


def test_a_folder_that_can_not_be_written(hub: LocalHub, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(WeightsError, match="set LAGOTTO_MODELS"):
        download(hub, tmp_path / "file" / "model.part")


def test_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LAGOTTO_HUB", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    assert hub_address() == HUB
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example/")
    assert hub_address() == "https://mirror.example"
    monkeypatch.setenv("LAGOTTO_HUB", "http://own.example")
    assert hub_address() == "http://own.example"
    assert hub_address("https://given.example") == "https://given.example"
    with pytest.raises(ConfigError, match='"ftp://x" is not the address of a hub'):
        hub_address("ftp://x")
