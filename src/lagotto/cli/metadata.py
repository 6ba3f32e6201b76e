"""Values of `--metadata KEY=VALUE`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from lagotto.documents import json_value
from lagotto.errors import ConfigError


def parse_metadata(pairs: Iterable[str]) -> dict[str, Any]:
    """Metadata from `KEY=VALUE` pairs. A value is JSON (`2024`, `true`, `["a"]`) or else text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise ConfigError(f"--metadata {pair!r} is not KEY=VALUE; write year=2024, for example")
        if key in found:
            raise ConfigError(f"--metadata sets {key!r} twice; for several values pass a JSON list")
        found[key] = _value(value)
    return found


def _value(text: str) -> Any:
    try:
        return json_value(json.loads(text))
    except (ValueError, RecursionError):  # not JSON, or a number that metadata can't hold
        return text
