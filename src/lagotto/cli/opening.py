"""From options to an open base."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lagotto.cli.options import BaseOptions, MakingOptions
from lagotto.errors import StoreError

if TYPE_CHECKING:
    from lagotto.sync import KnowledgeBase


def open_base(base: BaseOptions, making: MakingOptions) -> KnowledgeBase:
    """The base, made if there is none."""
    from lagotto.sync import KnowledgeBase

    return KnowledgeBase(
        base.kb, embedder=base.embedder, chunker=making.chunker, text_index=making.text_index
    )


def open_existing(base: BaseOptions) -> KnowledgeBase:
    """The base; StoreError if there is none, because reading should not leave a file behind."""
    from lagotto.sync import KnowledgeBase

    place = base.kb.removeprefix("sqlite:///")
    if "://" not in place and not Path(place).exists():
        raise StoreError(
            f"there is no base at {place}; make one with `lagotto --kb {place} add PATH`, "
            "or say with --kb where it is"
        )
    return KnowledgeBase(base.kb, embedder=base.embedder)
