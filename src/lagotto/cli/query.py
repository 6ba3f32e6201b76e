"""What commands that search have in common: from options to keyword arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lagotto.errors import ConfigError
from lagotto.suggestions import did_you_mean

if TYPE_CHECKING:
    from lagotto.cli.options import SearchOptions
    from lagotto.prefs import RetrievalPrefs

Query = Annotated[str, typer.Argument(metavar="QUERY", help="A question or keywords.")]


def arguments(how: SearchOptions) -> dict[str, Any]:
    """The keyword arguments of the verb: preferences, single settings, and what has an option."""
    settings = settings_of(how.set)
    if how.reranker:
        settings = merge(settings, {"rerank": {"reranker": how.reranker}})
    given = {
        "top_k": how.top_k,
        "mode": how.mode,
        "collection": how.collection,
        "filters": how.filters,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    return {"prefs": _preferences(how), **settings, **chosen}


def mode_of(given: dict[str, Any]) -> str:
    """The mode that a search with these arguments runs in."""
    return str(given.get("mode", given["prefs"].mode))


def _preferences(how: SearchOptions) -> RetrievalPrefs:
    """The preferences of a file or preset, else of the environment."""
    from lagotto.prefs import RetrievalPrefs

    if how.preset and how.prefs:
        raise ConfigError("give --preset or --prefs, not both: a file may name a preset itself")
    if how.prefs:
        return RetrievalPrefs.from_toml(how.prefs)
    return RetrievalPrefs.preset(how.preset) if how.preset else RetrievalPrefs.from_env()


def settings_of(given: list[str]) -> dict[str, Any]:
    """`NAME=VALUE` options as settings; ConfigError if there is no such setting."""
    from lagotto.prefs import RetrievalPrefs

    settings: dict[str, Any] = {}
    for setting in given:
        settings = merge(settings, _nested(setting))
    unknown = sorted(settings.keys() - RetrievalPrefs.model_fields.keys())
    if unknown:
        guess = did_you_mean(unknown[0], RetrievalPrefs.model_fields)
        raise ConfigError(f"{', '.join(unknown)}: there is no such setting{guess}")
    return settings


def _nested(setting: str) -> dict[str, Any]:
    """`scoring.blend=rrf` as a dict of dicts."""
    name, equals, value = setting.partition("=")
    if not equals or not name:
        raise ConfigError(f"--set {setting}: write NAME=VALUE, such as scoring.blend=rrf")
    nested: Any = value
    for part in reversed(name.split(".")):
        nested = {part: nested}
    return dict(nested)


def merge(settings: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """`settings` with `more`, group by group."""
    merged = dict(settings)
    for name, value in more.items():
        former = merged.get(name)
        if isinstance(former, dict) and isinstance(value, dict):
            value = merge(former, value)
        merged[name] = value
    return merged
