"""The trace of the caller, so that spans of a search belong to it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


@contextmanager
def callers_trace(headers: Iterable[tuple[bytes, bytes]]) -> Iterator[None]:
    """Make the trace of a request's headers the current one, unless there is one already.

    Like spans, only if the program has loaded OpenTelemetry.
    """
    if "opentelemetry.trace" not in sys.modules:
        yield
        return
    from opentelemetry import context, propagate, trace

    if trace.get_current_span().get_span_context().is_valid:
        yield
        return
    carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
    token = context.attach(propagate.extract(carrier))
    try:
        yield
    finally:
        context.detach(token)
