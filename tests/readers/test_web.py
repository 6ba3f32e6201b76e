"""Pages and files from a server on this machine, which has to be allowed."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lagotto.documents import Document
from lagotto.errors import ReadError, SourceTooLargeError
from lagotto.readers import FetchLimits, Source, load, web
from lagotto.readers.web import is_public
from tests.readers import samples
from tests.readers.pdf_maker import make_pdf
from tests.readers.samples import failure_of
from tests.servers.scripted import Handler, Reply, Request, ScriptedServer

ALLOWED = FetchLimits(allow_private=True)
HTML = "<html><head><title>Cats</title></head><body><p>Cats sleep a lot.</p></body></html>"
PAGES: dict[str, tuple[str, bytes]] = {
    "/cats": ("text/html; charset=utf-8", HTML.encode()),
    "/cats.php": ("text/html", HTML.encode()),
    "/file.pdf?v=2": ("application/octet-stream", samples.PDF),
    "/download": ("application/pdf", samples.PDF),
    "/notes.md": ("text/plain", b"# Notes\n\nText."),
    "/russian": ("text/html; charset=koi8-r", "<p>Кошки спят.</p>".encode("koi8-r")),
    "/picture": ("image/png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
    "/scan.pdf": ("application/pdf", make_pdf([["Cats sleep."], []])),
    "/": ("text/plain", b"The front page."),
}
MOVED = {
    "/moved": "/cats",
    "/loop": "/loop",
    "/file": "file:///etc/passwd",
    "/inside": "//127.0.0.2:{}/cats",
}


def page(path: str) -> Handler:
    kind, content = PAGES[path]
    return lambda _: Reply(content, headers={"Content-Type": kind})


def moved(target: str) -> Handler:
    def handle(request: Request) -> Reply:
        port = request.headers["host"].rpartition(":")[2]
        return Reply(status=302, headers={"Location": target.format(port)})

    return handle


def bomb(_: Request) -> Reply:
    return Reply(gzip.compress(bytes(50_000_000)), headers={"Content-Encoding": "gzip"})


ROUTES = {
    **{path: page(path) for path in PAGES},
    **{path: moved(target) for path, target in MOVED.items()},
    "/bomb": bomb,
    "/host": lambda request: Reply(request.headers["host"].encode()),
}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ScriptedServer(ROUTES) as serving:
        yield serving.url


def read(address: str) -> Document:
    [result] = load(address, fetch_limits=ALLOWED)
    assert isinstance(result, Document), result
    return result


def test_a_page(server: str) -> None:
    document = read(f"{server}/cats#sleep")
    assert (document.kind, document.title, document.text) == ("html", "Cats", "Cats sleep a lot.")
    assert document.source == f"{server}/cats"


@pytest.mark.parametrize(
    ("path", "kind", "title"),
    [
        ("/cats.php", "html", "Cats"),
        ("/file.pdf?v=2", "pdf", "On cats"),
        ("/download", "pdf", "On cats"),
        ("/notes.md", "markdown", "Notes"),
        ("/", "text", "127.0.0.1"),
    ],
)
def test_the_format_is_that_of_the_answer(server: str, path: str, kind: str, title: str) -> None:
    document = read(server + path)
    assert (document.kind, (document.title or "").partition(":")[0]) == (kind, title)


def test_the_encoding_that_the_server_declares_and_a_redirect(server: str) -> None:
    assert read(f"{server}/russian").text == "Кошки спят."
    document = read(f"{server}/moved")
    assert (document.source, document.title) == (f"{server}/moved", "Cats")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/none", "the server answered 404"),
        ("/loop", "more than 5 redirects"),
        ("/file", "only http"),
        ("/picture", "binary file of unknown format"),
    ],
)
def test_what_gives_nothing_is_a_failure(server: str, path: str, said: str) -> None:
    failure = failure_of(server + path, fetch_limits=ALLOWED)
    assert said in failure.reason
    assert failure.source == server + path


def test_pages_without_text_are_noted(server: str) -> None:
    loading = load(f"{server}/scan.pdf", fetch_limits=ALLOWED)
    [document] = loading
    assert isinstance(document, Document)
    [note] = loading.notes
    assert note.startswith(f"{server}/scan.pdf: page 2 has no text layer and can't be found; ")


def test_size_is_limited_also_when_unpacked(server: str) -> None:
    with pytest.raises(SourceTooLargeError, match="larger than 1,000,000 bytes"):
        web.fetch(f"{server}/bomb", max_bytes=1_000_000, limits=ALLOWED)


def test_private_addresses_have_to_be_allowed(server: str) -> None:
    assert "not a public address" in failure_of(f"{server}/cats").reason


def test_redirects_are_checked_too(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "is_public", lambda address: address == "127.0.0.1")
    assert web.fetch(f"{server}/moved", max_bytes=1_000_000)
    with pytest.raises(ReadError, match=r"127\.0\.0\.2 is not a public address"):
        web.fetch(f"{server}/inside", max_bytes=1_000_000)


def test_the_address_that_was_checked_is_used(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that resolves to another address the second time is resolved once."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def resolve(host: str, *rest: Any, **options: Any) -> Any:
        if host == "cats.example":
            asked.append(host)
            host = "127.0.0.1" if len(asked) == 1 else "192.0.2.1"
        return real(host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    port = server.rpartition(":")[2]
    found = web.fetch(f"http://cats.example:{port}/host", max_bytes=1000, limits=ALLOWED)
    assert found.data == f"cats.example:{port}".encode()
    assert len(asked) == 1
    asked.clear()
    with pytest.raises(ReadError, match=r"cats\.example is 127\.0\.0\.1"):
        web.fetch(f"http://cats.example:{port}/host", max_bytes=1000)


PUBLIC = """
93.184.216.34 2606:2800:220:1:248:1893:25c8:1946 64:ff9b::5db8:d822 2606:4700:4700::1111
"""
PRIVATE = """
127.0.0.1 10.0.0.1 169.254.169.254 100.64.0.1 0.0.0.0 224.0.0.1 ::1 fe80::1 fd00::1 ::ffff:10.0.0.1
64:ff9b::a00:1 2002:a00:1:: ::7f00:1 ::8.8.8.8 64:ff9b:1::a00:1 64:ff9b:1:ffff::808:808 fec0::1
::ffff:0:127.0.0.1 4000::1
"""


@pytest.mark.parametrize("address", [*PUBLIC.split(), *PRIVATE.split()])
def test_public_addresses(address: str) -> None:
    assert is_public(address) is (address in PUBLIC.split())


def drip_headers(visitor: socket.socket) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\n"
    yield from (b"X-%d: y\r\n" % number for number in range(10**6))


def drip_hints(visitor: socket.socket) -> Iterator[bytes]:
    yield from (b"HTTP/1.1 103 Early Hints\r\n\r\n" for _ in range(10**6))


def drip_empty_blocks(visitor: socket.socket) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\nContent-Type: text/plain\r\n\r\n"
    yield b"\x78\x9c"
    yield from (b"\x00\x00\x00\xff\xff" for _ in range(10**6))


def drip_text(visitor: socket.socket) -> Iterator[bytes]:
    """Without a length: a connection that ends early looks like a whole answer."""
    yield b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"
    yield from (b"x" for _ in range(10**6))


def silence(visitor: socket.socket) -> Iterator[bytes]:
    visitor.recv(1)  # until the other side has had enough
    yield b""


def drip_handshake(visitor: socket.socket) -> Iterator[bytes]:
    """The beginning of a record of TLS, which never ends."""
    yield b"\x16\x03\x03\x3f\xff"
    yield from (b"\x00" for _ in range(10**6))


@pytest.mark.parametrize(
    ("scheme", "drip"),
    [
        ("http", drip_headers),
        ("http", drip_hints),
        ("http", drip_empty_blocks),
        ("http", drip_text),
        ("http", silence),
        ("https", drip_handshake),
    ],
)
def test_the_time_is_for_all_of_an_address(
    drip: Callable[[socket.socket], Iterator[bytes]], scheme: str
) -> None:
    """A server that sends something every now and then does not gain time."""
    ended = threading.Event()

    def serve(listening: socket.socket) -> None:
        visitor, _ = listening.accept()
        with visitor:
            visitor.recv(65536)
            try:
                for part in drip(visitor):
                    visitor.sendall(part)
                    ended.wait(0.05)
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=[listening], daemon=True)
        thread.start()
        address = f"{scheme}://127.0.0.1:{listening.getsockname()[1]}/"
        limits = FetchLimits(allow_private=True, timeout=0.5)
        started = time.monotonic()
        with pytest.raises(ReadError, match=r"took more than 0\.5 s"):
            web.fetch(address, max_bytes=1_000_000, limits=limits)
        took = time.monotonic() - started
        ended.set()
        thread.join(10)
    assert took < 5
    assert not thread.is_alive()


def test_passwords_are_neither_sent_nor_shown() -> None:
    failure = failure_of("http://ann:hunter2@127.0.0.1/", fetch_limits=ALLOWED)
    assert "hunter2" not in str(failure)
    assert "password" in failure.reason


@pytest.mark.parametrize(
    "address", ["http://", "https://[", "http://a b/", "http://nobody.invalid/"]
)
def test_addresses_that_lead_nowhere(address: str) -> None:
    assert failure_of(address).error == "ReadError"


def test_an_address_beside_files(server: str, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A")
    results = load([f"{server}/cats", tmp_path, f"{server}/cats"], fetch_limits=ALLOWED)
    assert len(list(results)) == 2


def test_names_of_addresses() -> None:
    assert Source(name="https://example.com/a/b%20c.PDF?x=1.html").suffix == ".pdf"
    assert Source(name="https://example.com/a/b%20c.pdf").stem == "b c"
    front = Source(name="https://example.com")
    assert (front.suffix, front.stem) == ("", "example.com")
