from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lagotto.errors import UnknownNameError
from lagotto.prefs import RetrievalPrefs
from lagotto.presets import load_preset, preset_names

RRF = {"blend": "rrf", "w_exact": 0.0, "fill": False, "adapt": False}
"""Nothing is added to what the designs describe: no scores filled in, no weights adapted."""

SETTINGS: dict[str, dict[str, Any]] = {
    "aiblox": {
        **{"mode": "hybrid", "candidates": 20},
        **{"top_k_items": 20, "top_k_chunks": 12, "per_item_chunk_cap": 3},
        "fts": {"mode": "web", "rank_func": "ts_rank_cd"},
        "vector": {"embed_query": True, "distance": "cosine"},
        "fuzzy": {"mode": "off"},
        "scoring": {
            **RRF,
            **{"w_text": 0.35, "w_vec": 0.65, "w_fuzzy": 0.0},
            **{"normalize": "sigmoid", "rrf_weighted": False},
        },
        "parents": {"mode": "none"},
        "chunking": {"strategy": "late", "include_headers": True},
        "cache": {"use_chunk_cache": True, "write_chunk_cache": True},
        "snippet": {"max_chars": 360, "prefer_chunk_snippet": True},
    },
    "contextpack": {
        **{"mode": "semantic", "candidates": 50},
        "rerank": {
            **{"reranker": "cached:llm:gpt-4o", "max_text_chars": 1200},
            **{"candidates": 50, "keep": 15},
        },
        "parents": {"mode": "none"},
        "context": {
            **{"max_tokens": 12_000, "include_parents": True, "cite_by": "id"},
            **{"neighbor_same_page": 1, "neighbor_cross_page": 2, "min_primary_hits_to_keep": 3},
        },
    },
    "kotlin-rag": {
        **{"top_k": 10, "mode": "hybrid", "candidates": "needed"},
        "scoring": {
            **RRF,
            **{"w_vec": 0.7, "w_text": 0.3, "w_fuzzy": 0.0},
            **{"rrf_k": 60, "rrf_weighted": False, "normalize": "none"},
        },
        "fuzzy": {"mode": "off"},
        "rerank": {"enabled": "named", "candidates": 20},
        "parents": {"mode": "section", "stage": "after_rerank", "section_chars": 200},
    },
    "local-rag": {
        **{"top_k": 10, "candidates": 10, "min_score": 0.3},
        "scoring": {**RRF, "w_vec": 1.0, "w_text": 0.0, "w_fuzzy": 1.5, "rrf_k": 60},
        "fuzzy": {"mode": "always", "threshold": 0.3, "over": "chunks"},
        "parents": {"mode": "none"},
    },
    "oasis": {
        **{"overfetch": 3, "min_score": 0.0},
        "scoring": {**RRF, "keyword_weight": 0.3, "w_fuzzy": 0.0, "rrf_k": 60},
        "fuzzy": {"mode": "off"},
        "rerank": {"candidates": "all"},
        "parents": {"mode": "replace", "stage": "before_rerank"},
    },
}
PRESETS = list(SETTINGS)


def test_names() -> None:
    assert preset_names() == PRESETS


@pytest.mark.parametrize("name", PRESETS)
def test_settings_of_the_designs(name: str) -> None:
    assert load_preset(name).settings == SETTINGS[name]


@pytest.mark.parametrize(
    ("name", "stated", "effective"),
    [
        ("aiblox", (0.65, 0.35, 0, 0), (1, 1, 0, 0)),  # RRF of the design has no weights
        ("kotlin-rag", (0.7, 0.3, 0, 0), (1, 1, 0, 0)),
        ("local-rag", (1.0, 0.0, 1.5, 0), (1.0, 0.0, 1.5, 0)),
        ("oasis", (0.7, 0.3, 0, 0), (0.7, 0.3, 0, 0)),
    ],
)
def test_weights_of_the_designs(
    name: str, stated: tuple[float, ...], effective: tuple[float, ...]
) -> None:
    prefs = RetrievalPrefs.preset(name)
    assert tuple(prefs.scoring.weights(as_given=True).values()) == stated
    assert tuple(prefs.scoring.weights().values()) == effective
    linear = prefs.replace(scoring={"blend": "linear"})
    assert tuple(linear.scoring.weights().values()) == stated


def test_sizes_of_the_designs() -> None:
    assert RetrievalPrefs.preset("oasis").depth(10) == 30
    assert RetrievalPrefs.preset("local-rag").depth(10) == 10
    assert RetrievalPrefs.preset("contextpack").top_k == 15


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_file_of_preferences(name: str, tmp_path: Path) -> None:
    preset = load_preset(name)
    (tmp_path / "prefs.toml").write_text(preset.toml, encoding="utf-8")
    prefs = RetrievalPrefs.preset(name)
    assert RetrievalPrefs.from_toml(tmp_path / "prefs.toml") == prefs
    assert prefs.model_dump(exclude_unset=True) == preset.settings


@pytest.mark.parametrize("name", PRESETS)
def test_the_first_line_describes_it(name: str) -> None:
    preset = load_preset(name)
    assert preset.toml.startswith(f"# {preset.description}\n")
    assert preset.description.endswith(".")
    assert 40 < len(preset.description) <= 67  # with the name it fits 80 columns
    assert "preset" not in preset.settings


@pytest.mark.parametrize("name", ["nope", "", "../presets/oasis", "oasis.toml", ["oasis"]])
def test_unknown(name: Any) -> None:
    message = r"unknown preset .*; available: aiblox, "
    with pytest.raises(UnknownNameError, match=message):
        load_preset(name)
    with pytest.raises(UnknownNameError, match=message):
        RetrievalPrefs.preset(name)
