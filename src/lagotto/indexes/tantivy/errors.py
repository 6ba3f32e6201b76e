"""Errors of tantivy as StoreErrors."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lagotto.errors import IndexDamagedError, StoreError, StoreFullError, StoreReadOnlyError

_NUMBER = re.compile(r"os error (\d+)|Os \{ code: (\d+)")
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_RIGHT = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_RESOURCES = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}


@contextmanager
def tantivy_errors(folder: Path) -> Iterator[None]:
    """Turn whatever goes wrong with the index in `folder` into StoreErrors or IndexDamagedError.

    A full disk, missing rights and the like are no fault of the index. The rest is.
    """
    try:
        yield
    except (ValueError, OSError) as exc:
        raise _meaning(exc, folder) from exc
    except BaseException as exc:
        # a panic in tantivy is no Exception, and its class can't be imported
        if type(exc).__name__ != "PanicException":
            raise
        raise IndexDamagedError(f"the text index {folder} is damaged: {exc}") from exc


def _meaning(exc: ValueError | OSError, folder: Path) -> Exception:
    number = _errno(exc)
    if number in _NO_ROOM:
        return StoreFullError(f"the text index {folder} can't grow: {exc}; free some disk space")
    if number in _NO_RIGHT:
        return StoreReadOnlyError(f"the text index {folder} can't be written: {exc}; check rights")
    if number in _NO_RESOURCES:
        return StoreError(f"the text index {folder} can't be used: {exc}; raise the limit")
    return IndexDamagedError(f"the text index {folder} is damaged: {exc}")


def _errno(exc: ValueError | OSError) -> int | None:
    if isinstance(exc, OSError):
        return exc.errno
    found = _NUMBER.search(str(exc))
    return int(found[1] or found[2]) if found else None
