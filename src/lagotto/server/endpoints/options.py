"""What a caller can ask for: presets, rerankers, limits, and the fields that filters can use."""

from __future__ import annotations

from typing import Any

from lagotto import __version__
from lagotto.prefs import RetrievalPrefs
from lagotto.presets import load_preset, preset_names
from lagotto.server.answers import FieldsAnswer, OptionsAnswer
from lagotto.server.bodies import FieldsQuery
from lagotto.server.operations import Call, Operation


async def options(call: Call) -> object:
    """Answer with what requests may name, and the scopes of the key."""
    presets = [load_preset(name) for name in preset_names()]
    return {
        "version": __version__,
        "scopes": call.access.scopes,
        "presets": [
            {"name": item.name, "description": item.description, "settings": _settings(item.name)}
            for item in presets
        ],
        "rerankers": call.state.settings.rerankers,
        "settings": call.base.default_settings(),
        "max_top_k": call.state.settings.max_top_k,
    }


def _settings(preset: str) -> dict[str, Any]:
    """All settings in effect with a preset."""
    return RetrievalPrefs.preset(preset).model_dump(mode="json", exclude={"query_text"})


async def fields(call: Call) -> object:
    """Answer with the fields that documents have, and their values."""
    return await call.base.fields(collection=call.query.collection)


OPERATIONS = (
    Operation(
        "GET", "/v1/options", "options", "What requests may name, and what the key allows.",
        options, OptionsAnswer,
    ),
    Operation(
        "GET", "/v1/fields", "fields", "The fields of documents and their values, for filters.",
        fields, FieldsAnswer, query=FieldsQuery, heavy=True,
    ),
)  # fmt: skip
