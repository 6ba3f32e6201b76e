"""Requests made from the OpenAPI document: no failure of the server, no undocumented answer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from lagotto.server.app import OPERATIONS
from lagotto.server.openapi import openapi
from tests.server.running import Running, serving

pytestmark = pytest.mark.slow

EXAMPLES = int(os.environ.get("LAGOTTO_FUZZ_EXAMPLES", "3"))
"""Per operation; `make fuzz` has more."""

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
SCHEMA = schemathesis.openapi.from_dict(openapi(OPERATIONS))
NAMES = [
    (path, method.upper())
    for path, methods in openapi(OPERATIONS)["paths"].items()
    for method in methods
]


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving(max_tasks=1_000_000) as running:
        yield running


@pytest.mark.parametrize(("path", "method"), NAMES)
def test_answers_are_as_documented(server: Running, path: str, method: str) -> None:
    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), database=None)
    @given(case=SCHEMA[path][method].as_strategy())
    def call(case: Any) -> None:
        answer = case.call(base_url=server.url)
        if answer.status_code != 504:  # the deadline that the request itself has set
            case.validate_response(answer, checks=CHECKS)

    call()
