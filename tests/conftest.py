from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

# Machines differ: a slow example is not a wrong one.
settings.register_profile("lagotto", deadline=None)
settings.load_profile("lagotto")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Child processes react to SIGINT, even if this one was started with SIGINT ignored.

    Background jobs of a shell and processes under nohup ignore SIGINT, and their children inherit
    that. A handler, unlike SIG_IGN, is reset to the default when a child starts.
    """
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)
