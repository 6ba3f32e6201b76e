"""Mail messages (EML) and mailboxes (MBOX): messages and attachments as documents."""

from __future__ import annotations

import email
import email.policy
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from email.errors import MessageError
from email.header import decode_header
from email.message import Message
from email.utils import getaddresses, parsedate_to_datetime
from typing import BinaryIO, TypeAlias

from lagotto import errors
from lagotto.documents import Document, storable
from lagotto.errors import CorruptSourceError, EmptySourceError, ReadError, SourceTooLargeError
from lagotto.readers.base import ReadOptions, Source, TextBuilder, one_line
from lagotto.readers.decode import decode
from lagotto.readers.formats import Formats, Results, reader
from lagotto.readers.html import declared_encoding, is_furniture, parse, render

SHOWN = ("From", "To", "Cc", "Date", "Subject")
MOST_HEADER = 10_000
MOST_PARTS = 2_000
"""Messages have a few parts; each further one is left out."""

MOST_DEPTH = 5
"""Attached messages may have attachments, and so on."""

Part: TypeAlias = "Message[str, str]"


def _header(message: Part, name: str) -> str:
    """A header as text on one line, its encoded words decoded; empty if there is none."""
    return _decoded(str(message.get(name, ""))[:MOST_HEADER])


def _decoded(value: str) -> str:
    try:
        pieces = decode_header(value)
    except (MessageError, ValueError, LookupError):
        return storable(one_line(value))
    decoded = (
        decode(piece, declared=charset) if isinstance(piece, bytes) else piece
        for piece, charset in pieces
    )
    return storable(one_line("".join(decoded)))


def _addresses(message: Part, name: str) -> list[str]:
    """The addresses of a header, without names; none if they are nested too deeply."""
    with suppress(RecursionError):
        pairs = getaddresses([_header(message, name)])
        return [address.lower() for _, address in pairs if "@" in address]
    return []


def _sent_at(message: Part) -> datetime | None:
    with suppress(ValueError, TypeError, IndexError, OverflowError):
        moment = parsedate_to_datetime(_header(message, "Date"))
        return moment if 1 < moment.year < 9999 else None
    return None


def _body(message: Part) -> TextBuilder:
    """The shown headers, then the plain text of the message, or else its HTML as text."""
    builder = TextBuilder()
    headers = ((name, _header(message, name)) for name in SHOWN)
    builder.paragraph("\n".join(f"{name}: {text}" for name, text in headers if text))
    texts: dict[str, list[str]] = {"text/plain": [], "text/html": []}
    for part in _leaves(message):
        kind = part.get_content_type()
        if kind in texts and not _is_attached(part):
            texts[kind].append(_text(part))
    plain, html = ("\n\n".join(filter(None, pieces)) for pieces in texts.values())
    if plain.strip():
        builder.paragraph(plain)
    elif (page := parse(html)) is not None:
        root = next(page.iter("body"), page)
        render(root, skip=is_furniture, builder=builder)
    return builder


def _attachments(message: Part) -> Iterator[Source]:
    """The attached files and messages; pictures shown in the text are files too."""
    for number, part in enumerate(_leaves(message), start=1):
        if part.get_content_type() == "message/rfc822":
            for inner in _parts(part)[:1]:
                name = _header(inner, "Subject") or f"message {number}"
                yield Source(f"{_safe(name)}.eml", data=inner.as_bytes())
        elif _is_attached(part):
            name = _safe(_file_name(part) or f"attachment {number}")
            yield Source(name, data=_bytes(part))


def _leaves(message: Part) -> Iterator[Part]:
    """The parts that are not multipart; those of attached messages belong to these."""
    waiting: list[Part] = [message]
    for _ in range(MOST_PARTS):
        if not waiting:
            return
        part = waiting.pop()
        if part.get_content_type() != "message/rfc822" and part.is_multipart():
            waiting += reversed(_parts(part))
        else:
            yield part


def _parts(part: Part) -> list[Part]:
    """The parts inside a part; none if it is text, which its charset might fail to decode."""
    payload = part.get_payload() if part.is_multipart() else ()
    return [inner for inner in payload if isinstance(inner, Message)]


def _is_attached(part: Part) -> bool:
    if part.get_content_disposition() == "attachment" or _file_name(part):
        return True
    return part.get_content_maintype() not in ("text", "multipart", "message")


def _file_name(part: Part) -> str:
    with suppress(MessageError, ValueError, LookupError, TypeError):
        return _decoded(part.get_filename() or "")
    return ""


def _safe(name: str) -> str:
    return name.replace("\\", "/").rpartition("/")[2][:200] or "attachment"


def _bytes(part: Part) -> bytes:
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""


def _text(part: Part) -> str:
    data, charset = _bytes(part), None
    with suppress(LookupError, ValueError, TypeError):
        charset = part.get_content_charset()
    if charset is None and part.get_content_type() == "text/html":
        charset = declared_encoding(data)
    return storable(decode(data, declared=charset))


@reader("mail")
def read_mail(source: Source, *, options: ReadOptions) -> Results:
    """Read a message, and each of its attachments that has a reader.

    The text is the headers From, To, Cc, Date and Subject, and the plain text of the message, or
    its HTML if there is none. Addresses are metadata (`from`, `to`, `cc`). An attachment is a
    document of its own kind, with the file as source, its name in `source_ref`, and the message's
    subject and sender as metadata.
    """
    data = source.read(limit=options.max_bytes)
    if not data.strip():
        raise EmptySourceError(source.label, "empty file; leave it out")
    yield from _MessageDocuments(source, options).of(data, reference="")


@reader("mailbox", kind="mail")
def read_mailbox(source: Source, *, options: ReadOptions) -> Results:
    """Read the messages of a mailbox one by one, whatever its size, as `read_mail` does.

    `max_bytes` limits each message. The id of a message is its `source_ref`.
    """
    documents = _MessageDocuments(source, options)
    number = 0
    with source.open() as stream:
        messages = _split_mailbox(stream, source, limit=options.max_bytes)
        for number, data in enumerate(messages, start=1):
            try:
                yield from documents.of(data, reference=f"message {number}")
            except ReadError as exc:
                yield type(exc)(source.label, f"message {number}: {exc.reason}")
    if not number:
        raise EmptySourceError(source.label, "no messages in it; leave it out")


def _split_mailbox(stream: BinaryIO, source: Source, *, limit: int) -> Iterator[bytes]:
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
            reason = f"a message is larger than {limit:,} bytes; raise max_bytes"
            raise SourceTooLargeError(source.label, reason)
        blank = not line.strip()
    if message:
        yield b"".join(message)


class _MessageDocuments:
    """The documents of the messages of one source, with references that are told apart."""

    def __init__(self, source: Source, options: ReadOptions) -> None:
        self._source = source
        self._options = options
        self._formats = Formats()
        self._used: dict[str, int] = {}

    def of(self, data: bytes, *, reference: str, depth: int = 0) -> Results:
        """The document of a message, then those of its attachments.

        `reference` is used where the message has no id; the only message of a file needs none.
        """
        try:
            # The newer policies raise on many malformed headers.
            message = email.message_from_bytes(data, policy=email.policy.compat32)
            attached = list(_attachments(message))
            text = _body(message)
        except RecursionError as exc:
            reason = "the parts of this message are nested too deeply"
            raise CorruptSourceError(self._source.label, reason) from exc
        message_id = _header(message, "Message-ID")
        own = self._unused(message_id or reference) if reference else None
        title = _header(message, "Subject") or None
        if own is None:
            title = self._source.title or title or self._source.stem
        sender = next(iter(_addresses(message, "From")), None)
        metadata = {
            "from": sender,
            "to": _addresses(message, "To"),
            "cc": _addresses(message, "Cc"),
            "message_id": message_id,
            "in_reply_to": _header(message, "In-Reply-To"),
            "attachments": [file.name for file in attached],
        }
        present = {name: value for name, value in metadata.items() if value}
        draft = text.draft(metadata=present, created_at=_sent_at(message))
        if draft.text.strip() or not attached:
            fields = {"title": title, "source_ref": own}
            yield draft.assemble(self._source, kind="mail", options=self._options, **fields)
        about = {name: value for name, value in (("message", title), ("from", sender)) if value}
        for file in attached:
            yield from self._attached(file, own, about, depth=depth + 1)

    def _attached(
        self, file: Source, own: str | None, about: dict[str, str], *, depth: int
    ) -> Results:
        """The documents of an attached file or message, which is a part of message `own`."""
        name = self._unused(f"{own}/{file.name}" if own else file.name)
        try:
            if self._formats.name(file) == "mail":
                if depth < MOST_DEPTH:
                    yield from self.of(file.data, reference=name, depth=depth)
                return
            for result in self._formats.reader(file).read(file, options=self._options):
                if isinstance(result, Document):
                    yield self._moved(result, name, about)
                else:
                    reason = f"attachment {name}: {result.reason}"
                    yield type(result)(self._source.label, reason)
        except (errors.UnsupportedFormatError, EmptySourceError):
            return  # a picture, an archive, a signature
        except ReadError as exc:
            yield type(exc)(self._source.label, f"attachment {name}: {exc.reason}")

    def _moved(self, document: Document, name: str, about: dict[str, str]) -> Document:
        """The document of an attachment as one of the file that holds the message.

        Without a title, it is cited by the name of the attachment.
        """
        fields = {
            **dict(document),
            "source": self._source.name,
            "source_ref": f"{name}/{document.source_ref}" if document.source_ref else name,
            "title": document.title or name.rpartition("/")[2],
            "metadata": {**about, "attachment": name, **document.metadata},
        }
        del fields["id"], fields["content_hash"]  # derived from the others
        return Document.model_validate(fields)

    def _unused(self, reference: str) -> str:
        """`reference`, numbered if it was used before."""
        unused = reference
        while unused in self._used:
            self._used[reference] += 1
            unused = f"{reference} ({self._used[reference]})"
        self._used[unused] = 1
        return unused
