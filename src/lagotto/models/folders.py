"""Folders of this user for what can be fetched or made again."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path:
    """The user's cache folder: XDG_CACHE_HOME, or `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def own_cache() -> Path:
    """Lagotto's own cache folder: LAGOTTO_CACHE, or `lagotto` in the user's cache folder."""
    return Path(os.environ.get("LAGOTTO_CACHE") or user_cache() / "lagotto")


def models_folder() -> Path:
    """The folder of fetched models: LAGOTTO_MODELS, or `models` in Lagotto's cache folder."""
    return Path(os.environ.get("LAGOTTO_MODELS") or own_cache() / "models")
