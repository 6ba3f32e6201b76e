"""From a name such as `minilm` or `openai:text-embedding-3-small` to an embedder."""

from __future__ import annotations

from collections.abc import Callable

from lagotto.embedders.base import Embedder
from lagotto.registry import Registry

EmbedderFactory = Callable[[str], Embedder]
"""Makes an embedder from what stands behind the colon of its name, or from an empty string."""

EMBEDDERS: Registry[EmbedderFactory] = Registry(
    "embedder",
    group="lagotto.embedders",
    builtin={
        "minilm": "lagotto.embedders.minilm:minilm",
        "minilm-int8": "lagotto.embedders.minilm:minilm_int8",
        "onnx": "lagotto.embedders.onnx:from_folder",
        "openai": "lagotto.embedders.openai:from_spec",
    },
)


def create_embedder(spec: str | Embedder) -> Embedder:
    """The embedder that `spec` names, or `spec` itself if it is one.

    `minilm`, `minilm-int8`, `onnx:FOLDER`, `openai:MODEL`, or a name that another package has
    registered. Model files are looked for here and loaded on first use.
    """
    if not isinstance(spec, str):
        return spec
    name, _, rest = spec.partition(":")
    return EMBEDDERS.get(name)(rest)
