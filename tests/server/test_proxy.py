"""The configuration for nginx in docs/server.md, with a real nginx, where there is one.

LAGOTTO_NGINX names the program, if it is not on the path.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from getpass import getuser
from grp import getgrgid
from pathlib import Path

import httpx
import pytest

from tests.server.running import Running, bearer, serving
from tests.server.server_process import free_port
from tests.server.test_request_body import WaitingEmbedder
from tests.server.test_tasks import ended

NGINX = os.environ.get("LAGOTTO_NGINX") or shutil.which("nginx")
PAGE = (Path(__file__).parents[2] / "docs" / "server.md").read_text(encoding="utf-8")
EMBEDDER = WaitingEmbedder()

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving(embedder=EMBEDDER, heartbeat=0.1) as running:
        yield running


@pytest.fixture(scope="module")
def proxy(server: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of nginx in front of the server, with a key."""
    folder = tmp_path_factory.mktemp("nginx")
    key, certificate, port = folder / "kb.key", folder / "kb.pem", free_port()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj",
         "/CN=kb.example.org", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    (found,) = re.findall(r"```nginx\n(.*?)```", PAGE, re.DOTALL)
    for old, new in {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "/etc/ssl/kb.pem": str(certificate),
        "/etc/ssl/kb.key": str(key),
        "127.0.0.1:8000": f"127.0.0.1:{server.port}",
    }.items():
        assert old in found
        found = found.replace(old, new)
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"user {getuser()} {getgrgid(os.getgid()).gr_name}; daemon off; pid {folder}/pid;\n"
        f"error_log {folder}/error.log; events {{}}\n"
        f"http {{ access_log off; {temporary}\n{found} }}\n"
    )
    command = [str(NGINX), "-p", str(folder), "-c", str(folder / "nginx.conf")]
    tested = subprocess.run([*command, "-t"], capture_output=True, text=True)
    assert tested.returncode == 0, tested.stderr
    process = subprocess.Popen(command)
    headers = {**bearer(server.key("read", "write")), "Host": "kb.example.org"}
    try:
        with httpx.Client(
            base_url=f"https://127.0.0.1:{port}", verify=False, headers=headers, timeout=20
        ) as http:
            _wait(http)
            yield http
    finally:
        process.terminate()
        process.wait()


def _wait(http: httpx.Client) -> None:
    for _ in range(1_200):
        try:
            http.get("/healthz")
            return
        except httpx.TransportError:
            time.sleep(0.05)
    raise AssertionError("nginx does not answer")


def test_searches_and_uploads(proxy: httpx.Client) -> None:
    found = proxy.post("/v1/retrieve", json={"query": "Which dog finds truffles?"})
    assert found.json()["hits"][0]["document_id"] == "dog"
    assert re.fullmatch("[0-9a-f]{32}", found.headers["x-request-id"])
    own = {"Origin": "https://kb.example.org"}
    assert proxy.post("/v1/retrieve", json={"query": "dog"}, headers=own).status_code == 200
    sent = proxy.post("/v1/documents", files={"file": ("a.txt", b"A heron. " * 200_000)})
    assert ended(proxy, sent.json())["state"] == "succeeded"
    assert proxy.get("/v1/documents/error%2F4012").json()["id"] == "error/4012"


def test_events_are_not_held_back(proxy: httpx.Client) -> None:
    """A heartbeat arrives while the search, which would never end, is still under way."""
    EMBEDDER.cancelled.clear()
    with proxy.stream("POST", "/v1/search/stream", json={"query": "wait"}) as answer:
        lines = answer.iter_lines()
        assert next(lines) == ": heartbeat"
        assert not EMBEDDER.cancelled.is_set()
    assert EMBEDDER.cancelled.wait(60)


def test_a_client_that_disconnects_cancels_the_search(proxy: httpx.Client) -> None:
    EMBEDDER.entered.clear()
    EMBEDDER.cancelled.clear()
    request = proxy.build_request("POST", "/v1/retrieve", json={"query": "wait"})
    head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((request.url.host, request.url.port or 443)) as connection,
        trusting.wrap_socket(connection) as client,
    ):
        client.sendall(f"POST /v1/retrieve HTTP/1.1\r\n{head}\r\n".encode() + request.content)
        assert EMBEDDER.entered.wait(60)
        assert not EMBEDDER.cancelled.is_set()
    assert EMBEDDER.cancelled.wait(60)
