"""Mail messages (EML) and mailboxes (MBOX): messages and attachments as documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from lagotto.documents import Document
from lagotto.errors import (
    CorruptSourceError,
    EmptySourceError,
    ReadError,
    SourceTooLargeError,
    UnsupportedFormatError,
)
from lagotto.readers.base import ReadOptions, Source
from lagotto.readers.draft import Draft
from lagotto.readers.formats import SUFFIXES, Formats
from lagotto.readers.mail.message import (
    Attachment,
    Part,
    addresses,
    attachments,
    body,
    header,
    parse_message,
    sent_at,
)

KIND = "mail"
MOST_DEPTH = 5
"""Attached messages may have attachments, and so on."""


class MailReader:
    """Reads a message, and each of its attachments that has a reader.

    The text is the headers From, To, Cc, Date and Subject, and the plain text of the message, or
    its HTML if there is none. Addresses are metadata (`from`, `to`, `cc`). An attachment is a
    document of its own kind, with the file as source, its name in `source_ref`, and the message's
    subject and sender as metadata.
    """

    kind = KIND
    suffixes = SUFFIXES["mail"]

    def read(self, source: Source, *, options: ReadOptions) -> Iterator[Document | ReadError]:
        data = source.read(limit=options.max_bytes)
        if not data.strip():
            raise EmptySourceError(source.label, "empty file; leave it out")
        yield from MessageDocuments(source, options).of(data, reference="")


class MailboxReader:
    """Reads the messages of a mailbox one by one, whatever its size, as MailReader does.

    `max_bytes` limits each message. The id of a message is its `source_ref`.
    """

    kind = KIND
    suffixes = SUFFIXES["mailbox"]

    def read(self, source: Source, *, options: ReadOptions) -> Iterator[Document | ReadError]:
        documents = MessageDocuments(source, options)
        number = 0
        with source.open() as stream:
            for data in split_mailbox(stream, source, limit=options.max_bytes):
                number += 1
                try:
                    yield from documents.of(data, reference=f"message {number}")
                except ReadError as exc:
                    yield type(exc)(source.label, f"message {number}: {exc.reason}")
        if not number:
            raise EmptySourceError(source.label, "no messages in it; leave it out")


def split_mailbox(stream: BinaryIO, source: Source, *, limit: int) -> Iterator[bytes]:
    """The messages of a mailbox: each follows a line `From ...` at the start or after a blank one.

    CorruptSourceError if the file does not begin with such a line.
    """
    message: list[bytes] = []
    size = 0
    blank, begun = True, False
    while line := stream.readline(limit + 1):
        if blank and line.startswith(b"From "):
            if message:
                yield b"".join(message)
            message, size, begun = [], 0, True
        elif begun:
            quoted = line.startswith(b">") and line.lstrip(b">").startswith(b"From ")
            message.append(line[1:] if quoted else line)
        elif line.strip():
            raise CorruptSourceError(source.label, "not a mailbox: no `From ` line at its start")
        size += len(line)
        if size > limit:
            raise SourceTooLargeError(
                source.label, f"a message is larger than {limit:,} bytes; raise max_bytes"
            )
        blank = not line.strip()
    if message:
        yield b"".join(message)


class MessageDocuments:
    """The documents of the messages of one source, with references that are told apart."""

    def __init__(self, source: Source, options: ReadOptions) -> None:
        self._source = source
        self._options = options
        self._formats = Formats()
        self._used: dict[str, int] = {}

    def of(self, data: bytes, *, reference: str, depth: int = 0) -> Iterator[Document | ReadError]:
        """The document of a message, then those of its attachments.

        `reference` is used where the message has no id; the only message of a file needs none.
        """
        try:
            message = parse_message(data)
            held = list(attachments(message))
            text = body(message)
        except RecursionError as exc:
            raise CorruptSourceError(
                self._source.label, "the parts of this message are nested too deeply"
            ) from exc
        own = self._unused(header(message, "Message-ID") or reference) if reference else None
        draft = Draft(
            kind=KIND,
            text=text.text,
            headings=text.headings,
            blocks=text.blocks,
            metadata=_metadata(message, held),
            created_at=sent_at(message),
        )
        title = header(message, "Subject") or None
        if own is None:
            title = self._source.title or title or self._source.stem
        if draft.text.strip() or not held:
            yield draft.assemble(self._source, options=self._options, title=title, source_ref=own)
        about = {"message": title, "from": draft.metadata.get("from")}
        for attachment in held:
            yield from self._attached(attachment, own, about, depth=depth + 1)

    def _attached(
        self, attachment: Attachment, own: str | None, about: dict[str, object], *, depth: int
    ) -> Iterator[Document | ReadError]:
        name = self._unused(f"{own}/{attachment.name}" if own else attachment.name)
        file = Source(name=attachment.name, data=attachment.data)
        try:
            found = self._formats.name(file)
            if found == "mail":
                if depth < MOST_DEPTH:
                    yield from self.of(attachment.data, reference=name, depth=depth)
                return
            for result in self._formats.reader(file).read(file, options=self._options):
                if isinstance(result, Document):
                    yield self._moved(result, name, about)
                else:
                    yield self._lost(result, name)
        except (UnsupportedFormatError, EmptySourceError):
            return  # a picture, an archive, a signature
        except ReadError as exc:
            yield self._lost(exc, name)

    def _moved(self, document: Document, name: str, about: dict[str, object]) -> Document:
        """The document of an attachment as one of the file that holds the message."""
        fields = {field: getattr(document, field) for field in Document.model_fields}
        del fields["id"]
        reference = f"{name}/{document.source_ref}" if document.source_ref else name
        known = {key: value for key, value in about.items() if value}
        fields |= {
            "source": self._source.name,
            "source_ref": reference,
            "metadata": {**known, "attachment": name, **document.metadata},
        }
        return Document.model_validate(fields)

    def _lost(self, error: ReadError, name: str) -> ReadError:
        return type(error)(self._source.label, f"attachment {name}: {error.reason}")

    def _unused(self, reference: str) -> str:
        """`reference`, numbered if it was used before."""
        unused = reference
        while unused in self._used:
            self._used[reference] += 1
            unused = f"{reference} ({self._used[reference]})"
        self._used[unused] = 1
        return unused


def _metadata(message: Part, held: list[Attachment]) -> dict[str, object]:
    sender = addresses(message, "From")
    found: dict[str, object] = {
        "from": sender[0] if sender else None,
        "to": addresses(message, "To"),
        "cc": addresses(message, "Cc"),
        "message_id": header(message, "Message-ID"),
        "in_reply_to": header(message, "In-Reply-To"),
        "attachments": [attachment.name for attachment in held],
    }
    return {name: value for name, value in found.items() if value}
