"""Requests made from the OpenAPI document: no failure of the server, no undocumented answer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from lagotto.server.endpoints import OPERATIONS
from lagotto.server.operations import openapi
from tests.server.running import Running, serving

pytestmark = pytest.mark.slow

EXAMPLES = int(os.environ.get("LAGOTTO_FUZZ_EXAMPLES", "3"))
"""Per operation; `make fuzz` has more."""

PATIENCE = 300
"""Seconds that the client waits: on a busy machine an answer may take more than its usual ten."""

CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
SCHEMA = schemathesis.openapi.from_dict(openapi(OPERATIONS))
REQUESTS = [
    (operation.method, operation.path.replace(":path", ""), mode)
    for operation in OPERATIONS
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    if mode is GenerationMode.POSITIVE or operation.takes
]


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving(max_tasks=1_000_000) as running:
        yield running


@pytest.mark.parametrize(("method", "path", "mode"), REQUESTS)
def test_answers_are_as_documented(
    server: Running, method: str, path: str, mode: GenerationMode
) -> None:
    """Requests as the document describes them, and requests that differ from it."""

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), database=None)
    @given(case=SCHEMA[path][method].as_strategy(generation_mode=mode))
    def call(case: Any) -> None:
        answer = case.call(base_url=server.url, timeout=PATIENCE)
        if answer.status_code == 504:
            assert answer.elapsed >= timeout_of(case, server)
        else:
            case.validate_response(answer, checks=[not_a_server_error])
        case.validate_response(answer, checks=CHECKS)

    call()


def timeout_of(case: Any, server: Running) -> float:
    """The deadline that a request has set for itself, or that of the server."""
    given = case.body if isinstance(case.body, dict) else case.query or {}
    return float(given.get("timeout", server.state.settings.timeout))
