"""What the user has named, on this machine: a base alone makes nothing connect, run or load.

A base stores the names of its embedder, its chunker and its indexes, and the maker of the file
chose them. What comes with Lagotto, stays on this machine and takes no parameter but sizes is used
as it is. Anything else (`qdrant://HOST:6333`, `openai:MODEL?base_url=...`, `onnx:FOLDER`, the name
of a plugin) gets keys from the environment, texts and queries, so it is used only if the user has
named exactly that: as an argument or an option, which is recorded in the user's configuration
folder, or in the environment.
"""

from __future__ import annotations

import logging
import os
import shlex
from contextlib import suppress
from pathlib import Path

from lagotto._internal.locations import mask_location

log = logging.getLogger(__name__)

FOLDER = "LAGOTTO_CONFIG"
"""The environment variable with the configuration folder."""

VARIABLE = "LAGOTTO_TRUST"
"""The environment variable with names to trust, quoted as in a shell."""

NAMING = ("LAGOTTO_EMBEDDER", "LAGOTTO_TEXT_INDEX", "LAGOTTO_VECTOR_INDEX")
"""The environment variables that name a part of a base."""

_named: set[str] = set()
"""What was named in this process, for users whose configuration folder can't be written."""


def trust(name: str) -> None:
    """Record that the user has named an embedder or an index."""
    if name in _named:
        return
    known = is_trusted(name)
    _named.add(name)
    if known or not name.isprintable():  # after a line break comes another name
        return
    try:
        path = _recorded_in()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        line = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with open(line, "a", encoding="utf-8") as file:  # noqa: PTH123 a descriptor
            file.write(f"{name}\n")
    except (OSError, RuntimeError) as exc:
        log.info("that %s was named could not be recorded: %s", mask_location(name), exc)


def is_trusted(name: str) -> bool:
    names = {*_named, *(os.environ.get(variable, "") for variable in NAMING)}
    try:
        names.update(shlex.split(os.environ.get(VARIABLE, "")))
    except ValueError:
        log.warning("%s has a quotation mark without its pair; it is ignored", VARIABLE)
    with suppress(OSError, RuntimeError, UnicodeDecodeError):
        names.update(_recorded_in().read_text(encoding="utf-8").splitlines())
    return name in names


def how_to_trust(name: str) -> str:
    """What to do for a name that only a base has, as part of a message."""
    return (
        "the base names it, and you have not: if you know who made the base, set "
        f"{VARIABLE}={shlex.quote(mask_location(name))}, or name it once when you open the base, "
        "as an argument or by an option of `lagotto add`"
    )


def _recorded_in() -> Path:
    """The file of recorded names; RuntimeError if the user has no home."""
    if own := os.environ.get(FOLDER):
        return Path(own) / "trusted"
    user = os.environ.get("XDG_CONFIG_HOME")
    return (Path(user) if user else Path.home() / ".config") / "lagotto" / "trusted"
