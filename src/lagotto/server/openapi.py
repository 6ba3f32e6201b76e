"""The OpenAPI document, made from the table of operations and the records they are checked with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from lagotto import __version__
from lagotto.documents import LANGUAGE_TAG
from lagotto.server.operations import JSON, Operation
from lagotto.server.problems import MEDIA_TYPE, ProblemDetails

_PARAMETER = re.compile(r"\{(\w+)(?::path)?\}")
Schema = dict[str, Any]


def openapi(operations: Sequence[Operation]) -> Schema:
    """The document."""
    schemas, references = _schemas(operations)
    paths: Schema = {}
    for operation in operations:
        path = _PARAMETER.sub(r"{\1}", operation.path)
        described = _described(operation, references, schemas)
        paths.setdefault(path, {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": "Lagotto", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _schemas(operations: Sequence[Operation]) -> tuple[Schema, dict[Any, Schema]]:
    """The schemas of all records by name, and a reference to each record."""
    wanted: list[tuple[type[BaseModel], Any]] = [(ProblemDetails, "serialization")]
    for operation in operations:
        wanted += [(kind, "validation") for kind in (operation.body, operation.query) if kind]
        if operation.answer is not None:
            wanted.append((operation.answer, "serialization"))
    references, document = models_json_schema(
        list(dict.fromkeys(wanted)), ref_template="#/components/schemas/{model}"
    )
    return document["$defs"], dict(references)


def _described(operation: Operation, references: dict[Any, Schema], schemas: Schema) -> Schema:
    described: Schema = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [
            *_path_parameters(operation),
            *_query_parameters(operation, references, schemas),
        ],
        "responses": _responses(operation, references),
        "security": [{"key": []}, {}] if operation.scope else [],
    }
    if operation.body is not None:
        content: Schema = {JSON: {"schema": references[operation.body, "validation"]}}
        if operation.form:
            content["multipart/form-data"] = {"schema": FORM}
        described["requestBody"] = {"required": True, "content": content}
    return described


FORM: Schema = {
    "type": "object",
    "required": ["file"],
    "properties": {
        "file": {"type": "array", "items": {"type": "string", "format": "binary"}},
        "collection": {"type": "string", "minLength": 1},
        "language": {"type": "string", "pattern": f"^{LANGUAGE_TAG.pattern}$"},
        "metadata": {"type": "string", "description": "a JSON object"},
    },
}
"""A form with files."""


def _path_parameters(operation: Operation) -> Iterator[Schema]:
    for name in _PARAMETER.findall(operation.path):
        schema = {"type": "string", "minLength": 1}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameters(
    operation: Operation, references: dict[Any, Schema], schemas: Schema
) -> Iterator[Schema]:
    if operation.query is None:
        return
    record = _resolved(references[operation.query, "validation"], schemas)
    for name, schema in _leaves(record, schemas, nested=operation.permalink):
        shown = "q" if operation.permalink and name == "query" else name
        needed = name in record.get("required", ())
        parameter: Schema = {"name": shown, "in": "query", "required": needed}
        yield parameter | (
            {"content": {JSON: {"schema": schema}}} if _is_json(schema) else {"schema": schema}
        )


def _leaves(record: Schema, schemas: Schema, *, nested: bool) -> Iterator[tuple[str, Schema]]:
    """The fields of a record, and as `group.field` those of its groups."""
    for name, schema in record["properties"].items():
        group = _resolved(_needed(schema), schemas)
        if nested and "properties" in group:
            yield from (
                (f"{name}.{inner}", _needed(found)) for inner, found in group["properties"].items()
            )
        else:
            yield name, _needed(schema)


def _needed(schema: Schema) -> Schema:
    """A schema without null, which a query string can't have."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind.get("type") != "null"]
    if not kinds:
        return {name: value for name, value in schema.items() if name != "default"}
    return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


def _is_json(schema: Schema) -> bool:
    return schema.get("type") in ("object", "array")


def _resolved(schema: Schema, schemas: Schema) -> Schema:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: Schema = schemas[name] if name else schema
    return found


def _responses(operation: Operation, references: dict[Any, Schema]) -> Schema:
    kinds = (operation.answer, "serialization")
    schema = references[kinds] if operation.answer else {}  # text, a page, or a stream of events
    responses: Schema = {
        str(operation.status): {
            "description": operation.summary,
            "content": {operation.media_type: {"schema": schema}},
        }
    }
    problem = references[ProblemDetails, "serialization"]
    for status in sorted(_problems(operation)):
        responses[str(status)] = {
            "description": "A problem.",
            "content": {MEDIA_TYPE: {"schema": problem}},
        }
    return responses


def _problems(operation: Operation) -> set[int]:
    """The statuses of problems that an operation may end with."""
    found = {*operation.problems, 400, 500}
    if operation.scope is not None:
        found |= {401, 403, 503}
    if operation.body is not None:
        found |= {408, 413, 415, 422}
    if operation.query is not None:
        found.add(422)
    if operation.heavy:
        found |= {422, 429, 502, 504, 507}
    return found
