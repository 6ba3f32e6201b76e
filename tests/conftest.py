from __future__ import annotations

from hypothesis import settings

# Machines differ: a slow example is not a wrong one.
settings.register_profile("lagotto", deadline=None)
settings.load_profile("lagotto")
