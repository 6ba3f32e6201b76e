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
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeAlias

from lagotto import errors
from lagotto.documents import Document
from lagotto.errors import CorruptSourceError, ReadError, SourceTooLargeError
from lagotto.readers.base import ReadOptions, Source
from lagotto.readers.formats import READERS, Results
from lagotto.readers.ocr import Ocr, PageImage

ISOLATED = frozenset({"pdf", "docx", "pptx", "xlsx", "odt", "epub", "html", "mail", "mailbox"})
"""Built-in readers with native parsers, or with attachments that need them."""

log = logging.getLogger(__name__)

Child: TypeAlias = "subprocess.Popen[bytes]"

MEGABYTE = 1_000_000
_LENGTH = struct.Struct(">Q")
_ANSWER_BYTES = 4_000_000_000
_OUT_OF_MEMORY = 12
"""The exit status of a child whose allocation failed."""


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
        self._child: Child | None = None
        self.interrupted = threading.Event()

    def read(self, reader: str, source: Source, *, options: ReadOptions) -> Results:
        """Yield the documents and errors of `source`, as the reader called `reader` would."""
        size = source.path.stat().st_size if source.path else len(source.data)
        request = {
            "ocr": self._ocr is not None and reader == "pdf",
            "reader": reader,
            "name": source.name,
            "path": str(source.path) if source.path else None,
            "title": source.title,
            "options": options.model_dump(mode="json"),
            "cpu_seconds": self._limits.cpu(size),
            "memory": self._limits.address_space(size),
        }
        child = self._started()
        with suppress(BrokenPipeError, ConnectionResetError):  # it is gone
            _send(child.stdin, json.dumps(request).encode())
            if not source.path:
                _send(child.stdin, source.data)
        deadline = time.monotonic() + self._limits.wall_factor * self._limits.cpu(size)
        try:
            while (answer := self._answer(child, source, request, deadline)) != {}:
                if "page" in answer:
                    deadline += self._recognise(child, source, answer)
                elif "document" in answer:
                    yield Document.model_validate(answer["document"])
                else:
                    kind = getattr(errors, answer["error"], ReadError)
                    is_read_error = isinstance(kind, type) and issubclass(kind, ReadError)
                    error = (kind if is_read_error else ReadError)(source.label, answer["reason"])
                    if answer["raised"]:
                        raise error
                    yield error
        except GeneratorExit:
            self.close()  # it may still send answers to this request
            raise

    def _recognise(self, child: Child, source: Source, page: dict[str, Any]) -> float:
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

    def interrupt(self) -> None:
        """Kill the child from another thread; `read` ends with a ReadError."""
        self.interrupted.set()
        if self._child is not None:
            self._child.kill()

    def close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            with suppress(BrokenPipeError), child:  # what it has not read can't be flushed
                child.kill()

    def _started(self) -> Child:
        if self._child is None or self._child.poll() is not None:
            self.close()
            search_path = os.pathsep.join(path for path in sys.path if path)
            self._child = subprocess.Popen(
                [sys.executable, "-c", "from lagotto.readers.process import main; main()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": search_path},
            )
        return self._child

    def _answer(
        self, child: Child, source: Source, request: dict[str, Any], deadline: float
    ) -> dict[str, Any]:
        """The next answer; without one until the deadline, the child is killed."""
        head = _take(child.stdout, _LENGTH.size, deadline)
        length = _LENGTH.unpack(head)[0] if head else _ANSWER_BYTES + 1
        frame = _take(child.stdout, length, deadline) if length <= _ANSWER_BYTES else None
        if frame is not None:
            answer: dict[str, Any] = json.loads(frame)
            return answer
        late = time.monotonic() >= deadline
        child.kill()
        code = child.wait()
        self.close()
        if self.interrupted.is_set():
            raise ReadError(source.label, "reading was interrupted")
        limit = f"{request['memory'] // MEGABYTE:,} MB of memory"
        if late or code == -signal.SIGXCPU:
            limit = f"{request['cpu_seconds']:.0f} s of CPU time"
        elif code != _OUT_OF_MEMORY:
            crash = f"the parser crashed on it (exit status {code})"
            reason = f"{crash}; it is damaged, or takes more than {limit}"
            raise CorruptSourceError(source.label, reason)
        reason = f"reading took more than {limit}; it may be hostile"
        raise SourceTooLargeError(source.label, reason)


def _send(stream: IO[bytes] | None, frame: bytes) -> None:
    assert stream is not None
    stream.write(_LENGTH.pack(len(frame)))
    stream.write(frame)
    stream.flush()


def _take(stream: IO[bytes] | None, count: int, until: float) -> bytes | None:
    """So many bytes; None if the stream has ended before, or the deadline has passed."""
    assert stream is not None
    data = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while len(data) < count:
            if not selector.select(max(0.0, until - time.monotonic())):
                return None
            part = os.read(stream.fileno(), min(count - len(data), 1 << 20))
            if not part:
                return None
            data += part
    return bytes(data)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a parser may print

    def frame() -> bytes:
        return requests.read(*_LENGTH.unpack(requests.read(_LENGTH.size)))

    def ask_for_text(image: PageImage) -> str:
        page = {"page": image.number, "png": base64.b64encode(image.png).decode("ascii")}
        _send(answers, json.dumps(page).encode())
        return frame().decode()

    try:
        while head := requests.read(_LENGTH.size):
            request = json.loads(requests.read(*_LENGTH.unpack(head)))
            data = frame() if request["path"] is None else b""
            for answer in _answers(request, data, ask_for_text):
                _send(answers, json.dumps(answer).encode())
    except MemoryError:
        os._exit(_OUT_OF_MEMORY)


def _answers(request: dict[str, Any], data: bytes, ocr: Ocr) -> Iterator[dict[str, Any]]:
    """The documents and errors of a source; an error that is raised, or `{}`, is the last."""
    _limit(request["cpu_seconds"], request["memory"])
    path = Path(request["path"]) if request["path"] else None
    source = Source(name=request["name"], path=path, data=data, title=request["title"])
    options = ReadOptions.model_validate(request["options"])
    read: Callable[..., Results] = READERS.get(request["reader"])().read
    if request["ocr"]:
        read = partial(read, ocr=ocr)
    last: dict[str, Any] = {}
    try:
        for result in read(source, options=options):
            if isinstance(result, Document):
                yield {"document": result.model_dump(mode="json")}
            else:
                yield {"error": type(result).__name__, "reason": result.reason, "raised": False}
    except ReadError as exc:
        last = {"error": type(exc).__name__, "reason": exc.reason, "raised": True}
    yield last


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
