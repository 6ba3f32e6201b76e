"""`KEY=VALUE` on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from lagotto.documents import json_value
from lagotto.errors import ConfigError


def parse_metadata(pairs: Iterable[str]) -> dict[str, Any]:
    """The pairs as a dict. A value is JSON (`2024`, `true`, `["a", "b"]`) or else plain text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise ConfigError(f"--metadata {pair!r} is not KEY=VALUE; write it like year=2024")
        if key in found:
            raise ConfigError(f"--metadata gives {key!r} twice; for several values use a JSON list")
        found[key] = _value(value)
    return found


def _value(text: str) -> Any:
    try:
        return json_value(json.loads(text))
    except (ValueError, RecursionError):  # not JSON, or a number that JSON has no place for
        return text
