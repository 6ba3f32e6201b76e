"""OCR: the text of pages that are pictures, recognised by a callable or by a command."""

from __future__ import annotations

import shutil
import struct
import subprocess
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lagotto._internal.registry import did_you_mean
from lagotto.errors import ConfigError

COMMANDS = ("tesseract", "ocrmypdf")
DPI = 200
SECONDS = 120.0
MOST_LOGGED = 300
"""Characters of the output of a failed command that are logged."""


@dataclass(frozen=True, slots=True)
class PageImage:
    """A page without text: its source, its number from 1, and its picture as PNG in grey."""

    source: str
    number: int
    png: bytes


Ocr = Callable[[PageImage], str]
"""Gives the text of a page. Whatever it raises leaves the page without text, and is reported."""


def create_ocr(name: str | Ocr | None) -> Ocr | None:
    """An OCR: a callable as it is, `tesseract` or `ocrmypdf`, or `auto` for the first installed.

    Languages are given as the commands name them: `tesseract:deu+eng`.
    """
    if name is None or callable(name):
        return name
    chosen, _, languages = name.partition(":")
    names = ("auto", *COMMANDS)
    if chosen not in names:
        remedy = f"pass {', '.join(names)} or a callable"
        raise ConfigError(f"unknown OCR {chosen!r}{did_you_mean(chosen, names)}; {remedy}")
    commands = COMMANDS if chosen == "auto" else (chosen,)
    command = next(filter(shutil.which, commands), None)
    if command is None:
        remedy = f"install {' or '.join(COMMANDS)}"
        raise ConfigError(f"no command for ocr={name!r} is installed; {remedy}")
    return lambda image: _recognised(command, image, languages)


def _recognised(command: str, image: PageImage, languages: str) -> str:
    with tempfile.TemporaryDirectory(prefix="lagotto-ocr-") as folder:
        picture, text = Path(folder, "page.png"), Path(folder, "page.txt")
        picture.write_bytes(image.png)
        in_languages = ["-l", languages] if languages else []
        if command == "tesseract":
            options = [str(picture), str(text.with_suffix("")), "--dpi", str(DPI), *in_languages]
        else:
            options = ["--quiet", "--image-dpi", str(DPI), "--sidecar", str(text), *in_languages]
            options += [str(picture), str(text.with_suffix(".pdf"))]
        arguments = [command, *options]
        done = subprocess.run(arguments, capture_output=True, timeout=SECONDS, check=False)
        if done.returncode:
            message = done.stderr.decode(errors="replace").strip()[-MOST_LOGGED:]
            raise RuntimeError(f"{command} failed with exit code {done.returncode}: {message}")
        return text.read_text(encoding="utf-8", errors="replace").replace("\f", "")


def png(pixels: bytes, width: int, height: int, stride: int) -> bytes:
    """Grey pixels, `stride` bytes to a row, as a PNG file."""
    rows = b"".join(b"\0" + pixels[y * stride : y * stride + width] for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )
