"""Read files in a child process: one that hangs, crashes or exhausts memory fails alone.

Native parsers (PDFium, libxml2) can loop, abort or allocate without bound on a few kilobytes of
hostile input, and no exception handler in this process can stop them. Their formats are read by a
child with limits on CPU time, wall time and address space. Parent and child exchange frames of
JSON, never pickles: a compromised child can send wrong text, but no code.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import selectors
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO

from lagotto import errors
from lagotto.documents import Document
from lagotto.errors import CorruptSourceError, ReadError, SourceTooLargeError
from lagotto.readers.base import Reader, ReadOptions, Source
from lagotto.readers.ocr import Ocr, PageImage

ISOLATED = frozenset({"pdf", "docx", "pptx", "xlsx", "odt", "epub", "html", "mail", "mailbox"})
"""Built-in readers with native parsers, or with attachments that need them."""

log = logging.getLogger(__name__)

MEGABYTE = 1_000_000
_LENGTH = struct.Struct(">Q")
_ANSWER_BYTES = 4_000_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for reading one file; they grow with the size of the file.

    CPU time is independent of the load of the machine; the wall time limit, several times as long,
    catches a child that sleeps. `memory` limits the address space of the child.
    """

    cpu_seconds: float = 20.0
    cpu_seconds_per_megabyte: float = 5.0
    wall_factor: float = 6.0
    memory: int = 1_500_000_000
    memory_per_byte: float = 12.0

    def cpu(self, size: int) -> float:
        """CPU seconds for a file of `size` bytes."""
        return self.cpu_seconds + self.cpu_seconds_per_megabyte * size / MEGABYTE

    def address_space(self, size: int) -> int:
        """Bytes of address space for a file of `size` bytes."""
        return self.memory + int(self.memory_per_byte * size)


class ReaderProcess:
    """A child process that reads one file after another; a killed child is replaced.

    Not thread-safe, except for `interrupt`.
    """

    def __init__(self, limits: Limits | None = None, *, ocr: Ocr | None = None) -> None:
        self._limits = limits or Limits()
        self._ocr = ocr
        self._child: subprocess.Popen[bytes] | None = None
        self._interrupted = threading.Event()

    def read(
        self, reader: str, source: Source, *, options: ReadOptions
    ) -> Iterator[Document | ReadError]:
        """Yield the documents and errors of `source`, as the reader called `reader` would."""
        size = source.path.stat().st_size if source.path else len(source.data)
        child = self._started()
        with suppress(BrokenPipeError, ConnectionResetError):  # it is gone
            ocr = self._ocr is not None
            _send(child.stdin, _request(reader, source, options, self._limits, size, ocr=ocr))
            if not source.path:
                _send(child.stdin, source.data)
        deadline = time.monotonic() + self._limits.wall_factor * self._limits.cpu(size)
        try:
            while (answer := self._answer(child, source, size, deadline)) != {}:
                if "page" in answer:
                    deadline += self._recognise(child, source, answer)
                elif "document" in answer:
                    yield Document.model_validate(answer["document"])
                elif answer.get("raised"):
                    raise _error(answer["error"], source)
                else:
                    yield _error(answer["error"], source)
        except GeneratorExit:
            self.close()  # it may still send answers to this request
            raise

    def _recognise(
        self, child: subprocess.Popen[bytes], source: Source, page: dict[str, Any]
    ) -> float:
        """Send the child the text of a page that it asks for; returns the time that it took."""
        assert self._ocr is not None
        began = time.monotonic()
        image = PageImage(source.label, page["page"], base64.b64decode(page["png"]))
        try:
            text = self._ocr(image)
        except Exception as exc:  # noqa: BLE001 the caller's code, or a command
            log.warning("OCR of page %d of %s failed: %s", image.number, source.label, exc)
            text = ""
        with suppress(BrokenPipeError, ConnectionResetError):
            _send(child.stdin, text.encode(errors="replace"))
        return time.monotonic() - began

    @property
    def interrupted(self) -> bool:
        """Whether `interrupt` was called."""
        return self._interrupted.is_set()

    def interrupt(self) -> None:
        """Kill the child from another thread; `read` ends with a ReadError."""
        self._interrupted.set()
        if self._child is not None:
            self._child.kill()

    def close(self) -> None:
        """Stop the child; the next `read` starts another."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            for stream in (child.stdin, child.stdout):
                if stream is not None:
                    _close(stream)
            child.wait()

    def __enter__(self) -> ReaderProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is None or self._child.poll() is not None:
            self.close()
            self._child = subprocess.Popen(
                [sys.executable, "-c", "from lagotto.readers.process import main; main()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": _python_path()},
            )
        return self._child

    def _answer(
        self, child: subprocess.Popen[bytes], source: Source, size: int, deadline: float
    ) -> dict[str, Any]:
        frame = _receive(child.stdout, until=deadline)
        if frame is not None:
            answer: dict[str, Any] = json.loads(frame)
            return answer
        late = time.monotonic() >= deadline
        child.kill()
        code = child.wait()
        self.close()
        raise self._failure(source, size, code, late=late)

    def _failure(self, source: Source, size: int, code: int, *, late: bool) -> ReadError:
        limits = self._limits
        if self.interrupted:
            return ReadError(source.label, "reading was interrupted")
        if late or code == -signal.SIGXCPU:
            return SourceTooLargeError(
                source.label,
                f"reading took more than {limits.cpu(size):.0f} s of CPU time; it may be hostile",
            )
        if code == _OUT_OF_MEMORY:
            memory = limits.address_space(size) // MEGABYTE
            return SourceTooLargeError(
                source.label, f"reading took more than {memory:,} MB of memory; it may be hostile"
            )
        return CorruptSourceError(
            source.label,
            f"the parser crashed on it (exit status {code}); it is damaged, or takes more than "
            f"{limits.address_space(size) // MEGABYTE:,} MB of memory",
        )


_OUT_OF_MEMORY = 12


def _request(
    reader: str, source: Source, options: ReadOptions, limits: Limits, size: int, *, ocr: bool
) -> bytes:
    request = {
        "ocr": ocr and reader == "pdf",
        "reader": reader,
        "name": source.name,
        "path": str(source.path) if source.path else None,
        "title": source.title,
        "options": options.model_dump(mode="json"),
        "cpu_seconds": limits.cpu(size),
        "memory": limits.address_space(size),
    }
    return json.dumps(request).encode()


def _error(fields: dict[str, str], source: Source) -> ReadError:
    kind = getattr(errors, fields["kind"], ReadError)
    known = isinstance(kind, type) and issubclass(kind, ReadError)
    return (kind if known else ReadError)(source.label, fields["reason"])


def _send(stream: IO[bytes] | None, frame: bytes) -> None:
    assert stream is not None
    stream.write(_LENGTH.pack(len(frame)))
    stream.write(frame)
    stream.flush()


def _receive(stream: IO[bytes] | None, *, until: float) -> bytes | None:
    """The next frame; None if the stream has ended or the deadline has passed."""
    assert stream is not None
    head = _take(stream, _LENGTH.size, until)
    if head is None:
        return None
    (length,) = _LENGTH.unpack(head)
    return _take(stream, length, until) if length <= _ANSWER_BYTES else None


def _take(stream: IO[bytes], count: int, until: float) -> bytes | None:
    taken = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while len(taken) < count:
            if not selector.select(max(0.0, until - time.monotonic())):
                return None
            part = os.read(stream.fileno(), min(count - len(taken), 1 << 20))
            if not part:
                return None
            taken += part
    return bytes(taken)


def _close(stream: IO[bytes]) -> None:
    with suppress(BrokenPipeError):  # unread by the dead child
        stream.close()


def _python_path() -> str:
    """The module search path of this process, for the child."""
    return os.pathsep.join(path for path in sys.path if path)


def _serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until the stream ends (in the child)."""
    while head := requests.read(_LENGTH.size):
        request = json.loads(requests.read(*_LENGTH.unpack(head)))
        data = b""
        if request["path"] is None:
            data = requests.read(*_LENGTH.unpack(requests.read(_LENGTH.size)))
        answer: dict[str, Any] = {}
        for answer in _answers(request, data, partial(_ask_for_text, requests, answers)):
            _send(answers, json.dumps(answer).encode())
        if not answer.get("raised"):
            _send(answers, b"{}")


def _ask_for_text(requests: BinaryIO, answers: BinaryIO, image: PageImage) -> str:
    """The text of a page, from the parent (in the child)."""
    page = {"page": image.number, "png": base64.b64encode(image.png).decode("ascii")}
    _send(answers, json.dumps(page).encode())
    return requests.read(*_LENGTH.unpack(requests.read(_LENGTH.size))).decode()


def _reader(request: dict[str, Any], ocr: Ocr) -> Reader:
    from lagotto.readers.formats import READERS

    if request["ocr"]:
        from lagotto.readers.pdf import PdfReader

        return PdfReader(ocr=ocr)
    return READERS.get(request["reader"])()


def _answers(request: dict[str, Any], data: bytes, ocr: Ocr) -> Iterator[dict[str, Any]]:

    _limit(request["cpu_seconds"], request["memory"])
    path = Path(request["path"]) if request["path"] else None
    source = Source(name=request["name"], path=path, data=data, title=request["title"])
    options = ReadOptions.model_validate(request["options"])
    try:
        for result in _reader(request, ocr).read(source, options=options):
            if isinstance(result, Document):
                yield {"document": result.model_dump(mode="json")}
            else:
                yield {"error": {"kind": type(result).__name__, "reason": result.reason}}
    except ReadError as exc:
        yield {"error": {"kind": type(exc).__name__, "reason": exc.reason}, "raised": True}


def _limit(cpu_seconds: float, memory: int) -> None:
    """Limit the CPU time of this process from now on, and its address space."""
    try:
        import resource
    except ImportError:  # Windows: only wall time is limited
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    allowed = int(used.ru_utime + used.ru_stime + cpu_seconds) + 1
    for kind, soft in ((resource.RLIMIT_CPU, allowed), (resource.RLIMIT_AS, memory)):
        hard = resource.getrlimit(kind)[1]
        soft = soft if hard == resource.RLIM_INFINITY else min(soft, hard)
        resource.setrlimit(kind, (soft, hard))


def main() -> None:
    """Run the child: answer requests on standard input until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a parser may print
    try:
        _serve(sys.stdin.buffer, answers)
    except MemoryError:
        os._exit(_OUT_OF_MEMORY)
