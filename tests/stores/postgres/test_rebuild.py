"""Rebuilding a base on a server: beside it, and then a switch that only renames."""

from __future__ import annotations

from lagotto.testing.rebuild import RebuildContract


class TestRebuild(RebuildContract):
    """`location` is an empty schema."""
