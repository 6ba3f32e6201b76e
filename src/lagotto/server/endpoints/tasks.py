"""Adding documents, as tasks: submitted, listed, watched, cancelled."""

from __future__ import annotations

import json
from typing import Any

from pydantic import Field, ValidationError
from starlette.datastructures import FormData, UploadFile

from lagotto._internal.concurrency import with_checkpoints
from lagotto.documents import DEFAULT_COLLECTION, Document, Record, json_value, language_tag
from lagotto.readers.language import with_language
from lagotto.server.events import MEDIA_TYPE, Event, EventStream
from lagotto.server.operations import Call, operation
from lagotto.server.problems import Problem, invalid, invalid_field
from lagotto.server.request_body import AddBody, limited
from lagotto.server.tasks import Task, Upload, writes_of

LONGEST_NAME = 500
FIELDS = ("collection", "language", "metadata")


@operation(
    "POST /v1/documents", Task, scope="write", takes=AddBody, form=True, status=202, problems=(429,)
)
async def add(call: Call, body: AddBody | None) -> Task:
    """Add documents or files; answers with a task."""
    tasks, settings = call.state.tasks, call.state.settings
    if body is not None:
        documents, data = await call.off_loop(_documents, body)
        await call.base.check_writable(documents)
        upload = Upload("documents.json", data, "documents")
        writes = await call.off_loop(writes_of, documents)
        return await tasks.submit([upload], call.access, replace=body.replace, writes=writes)
    http = limited(call.http, most=settings.max_upload, timeout=settings.body_timeout)
    async with http.form() as form:
        uploads = [await _upload(file) for file in form.getlist("file")]
        fields = _fields(form)
    if not uploads:
        raise invalid_field("file", "no file; send one or more, as multipart/form-data")
    collection = fields.get("collection", DEFAULT_COLLECTION)
    allowed = call.access.visibility.collections
    if allowed is not None and collection not in allowed:
        raise Problem("Forbidden", f"this key does not see the collection {collection!r}")
    try:
        language = language_tag(fields.get("language", ""))
    except ValueError as exc:
        raise invalid_field("language", str(exc)) from None
    metadata = _metadata(fields.get("metadata", "{}"))
    return await tasks.submit(
        uploads, call.access, collection=collection, language=language, metadata=metadata
    )


def _documents(body: AddBody) -> tuple[list[Document], bytes]:
    """The documents, and what a task keeps of them."""
    documents, texts = [], []
    for index, item in enumerate(with_checkpoints(body.documents)):
        try:
            document = Document.model_validate(item.model_dump())
        except ValidationError as exc:
            raise invalid(exc, start=f"/documents/{index}") from None
        document = with_language(document, body.language)
        documents.append(document)
        texts.append(json.dumps(document.model_dump(mode="json")))
    return documents, f"[{','.join(texts)}]".encode()


class TasksQuery(Record):
    """Which tasks to list."""

    after: str | None = None
    limit: int = Field(default=100, ge=1, le=1_000)


@operation("GET /v1/tasks", {"tasks": list[Task], "next": str | None}, scope="write")
async def list_tasks(call: Call, query: TasksQuery) -> object:
    """The tasks of the key, the latest first; `after` of the next page is `next`."""
    tasks = await call.state.tasks.tasks_of(call.access, after=query.after, limit=query.limit + 1)
    page = tasks[: query.limit]
    return {"tasks": page, "next": page[-1].id if len(tasks) > len(page) else None}


@operation("GET /v1/tasks/{task_id}", Task, scope="write")
async def get_task(call: Call) -> Task:
    """A task."""
    _, stored = await call.state.tasks.get(call.path("task_id"), call.access)
    return stored.task


@operation("POST /v1/tasks/{task_id}/cancel", Task, scope="write", problems=(409,))
async def cancel_task(call: Call) -> Task:
    """Cancel a task; what it has added stays."""
    return await call.state.tasks.cancel(call.path("task_id"), call.access)


@operation(
    "GET /v1/tasks/{task_id}/events", None, scope="write", media_type=MEDIA_TYPE, problems=(429,)
)
async def task_events(call: Call) -> object:
    """A task as server-sent events, numbered by its versions."""
    name = call.path("task_id")
    await call.state.tasks.get(name, call.access)
    states = call.state.tasks.watch(name, call.access)
    events = ((version, Event("task", task)) async for version, task in states)
    return EventStream(call, events)


async def _upload(file: UploadFile | str) -> Upload:
    if isinstance(file, str):
        raise invalid_field("file", "a text; send a file, with a file name")
    name = (file.filename or "").strip()[:LONGEST_NAME]
    return Upload(name or "unnamed.txt", await file.read())


def _fields(form: FormData) -> dict[str, str]:
    unknown = sorted(set(form) - {*FIELDS, "file"})
    if unknown:
        known = ", ".join(("file", *FIELDS))
        raise invalid_field(unknown[0], f"there is no such field; there are {known}")
    return {name: str(form[name]) for name in FIELDS if form.get(name)}


def _metadata(text: str) -> dict[str, Any]:
    try:
        metadata = json_value(json.loads(text))
    except (ValueError, RecursionError) as exc:
        raise invalid_field("metadata", f"not JSON that metadata can hold: {exc}") from None
    if not isinstance(metadata, dict):
        raise invalid_field("metadata", "not an object")
    return metadata
