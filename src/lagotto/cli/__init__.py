"""The command line. Errors of a command end here, as a message on stderr and an exit code."""

from __future__ import annotations

import gc
import io
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from lagotto._internal.locations import mask_secrets, secrets_of
from lagotto.errors import LagottoError, QueryError

COLLECT_AFTER = 50_000
"""New objects between two runs of the garbage collector. At the usual 700 it takes 7 % of the time
of a short command, which mostly imports modules that stay."""

DEFAULTS = {"OPENBLAS_NUM_THREADS": "1", "PYDANTIC_DISABLE_PLUGINS": "__all__"}
"""Set unless they are set. Threads of NumPy's linear algebra cost more to start than they save in
one search, and pydantic would look for plugins in every installed package."""

UNEXPECTED = 70
BROKEN_PIPE = 1


def main(args: Sequence[str] | None = None) -> int:
    """Run a command with `args`, by default those of the process, and return its exit code."""
    gc.set_threshold(COLLECT_AFTER)
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may lack characters of a text
    try:
        with _without_passwords(args):
            code = _run(args)
        sys.stdout.flush()
        gc.freeze()  # or the collector looks through everything once more when the process ends
    except BrokenPipeError:
        # The reader of the output closed the pipe. Without the redirection Python would report it
        # again when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return code


class MaskedStream:
    """A stream that replaces secrets in what is written to it."""

    def __init__(self, stream: TextIO, secrets: set[str]) -> None:
        self._stream = stream
        self._secrets = secrets

    def write(self, text: str) -> int:
        self._stream.write(mask_secrets(text, self._secrets))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def _without_passwords(args: Sequence[str] | None) -> Iterator[None]:
    """Keep the passwords of all addresses in `args` and LAGOTTO_KB off stderr.

    Messages of Lagotto have none; those of the option parser and tracebacks may.
    """
    arguments = [*(sys.argv[1:] if args is None else args), os.environ.get("LAGOTTO_KB", "")]
    secrets = {secret for location in arguments for secret in secrets_of(location)}
    stderr = sys.stderr
    if secrets:
        sys.stderr = MaskedStream(stderr, secrets)
    try:
        yield
    finally:
        sys.stderr = stderr


def _run(args: Sequence[str] | None) -> int:
    from lagotto.cli.app import app
    from lagotto.cli.output import printable

    try:
        app(args=args, prog_name="lagotto")
        return 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except QueryError as exc:
        code, message = exc.exit_code, str(exc)  # several lines: they show where in the query
    except LagottoError as exc:
        code, message = exc.exit_code, _in_one_line(exc)
    except BrokenPipeError:
        raise
    except Exception as exc:  # noqa: BLE001  (the edge of the program; see LAGOTTO_DEBUG)
        if os.environ.get("LAGOTTO_DEBUG") == "1":
            traceback.print_exception(exc)
        remedy = "set LAGOTTO_DEBUG=1 to see the traceback"
        code = UNEXPECTED
        message = f"unexpected error: {type(exc).__name__}: {_in_one_line(exc)} ({remedy})"
    # it may quote titles and names, which a terminal must not obey
    print(f"lagotto: {printable(message)}", file=sys.stderr)
    return code


def _in_one_line(error: Exception) -> str:
    return " ".join(line.strip() for line in str(error).splitlines())
