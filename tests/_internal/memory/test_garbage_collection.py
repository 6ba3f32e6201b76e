"""The collector is paused inside, and afterwards as it was."""

from __future__ import annotations

import gc

import pytest

from lagotto._internal.memory import paused_collector


def test_paused_inside_and_enabled_afterwards() -> None:
    def fail() -> None:
        with paused_collector():
            with paused_collector():
                assert not gc.isenabled()
            assert not gc.isenabled()
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fail()
    assert gc.isenabled()


def test_a_disabled_collector_stays_disabled() -> None:
    gc.disable()
    try:
        with paused_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
