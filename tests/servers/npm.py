"""Programs of third parties from npm: downloaded once, used only as they were reviewed."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

UNPRIVILEGED = "nobody" if os.geteuid() == 0 else None
"""The user that runs a program if we are root: it is a third party's, or refuses to run as root."""


def shared_folder(name: str, sha256: str) -> Path:
    """Where what was downloaded is kept, whether it is there or not: in the virtual environment."""
    return Path(sys.prefix) / "share" / "lagotto" / f"{name}-{sha256[:8]}"


def download(package: str) -> bytes:
    """The archive of a package."""
    with tempfile.TemporaryDirectory() as scratch:
        command = ["npm", "pack", "--silent", package]
        subprocess.run(command, cwd=scratch, check=True, stdout=subprocess.DEVNULL)
        (packed,) = Path(scratch).glob("*.tgz")
        return packed.read_bytes()


def reviewed(data: bytes, sha256: str, package: str) -> bytes:
    """The data, if it is what was reviewed."""
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise RuntimeError(
            f"what is in {package} has the SHA-256 {found} instead of {sha256}; "
            "it is not what was reviewed, so it is not used"
        )
    return data


def members(archive: bytes, part: str) -> dict[str, bytes]:
    """The files of an archive whose names have a part."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        wanted = [member for member in files if part in member.name and member.isfile()]
        sources = {member.name: files.extractfile(member) for member in wanted}
        return {name: source.read() for name, source in sources.items() if source}


def install(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a new folder, which gets its name once it is complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        for name, data in files.items():
            target = Path(scratch) / "new" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            target.chmod(0o755)
        (Path(scratch) / "new").rename(folder)


def hand_over(folder: Path) -> None:
    """Give a folder to the user that runs the program."""
    if UNPRIVILEGED:
        shutil.chown(folder, UNPRIVILEGED)
    folder.chmod(0o755)


def guard(script: str, argument: str | Path) -> subprocess.Popen[bytes]:
    """Run a script once this process ends, however it ends: that closes the guard's stdin."""
    return subprocess.Popen(
        ["/bin/sh", "-c", f"cat; {script}", argument],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
