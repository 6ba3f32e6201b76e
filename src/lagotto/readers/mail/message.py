"""One mail message: its headers, its body as text, its attachments as files."""

from __future__ import annotations

import email
import email.policy
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from email.errors import MessageError
from email.header import decode_header
from email.message import Message
from email.utils import getaddresses, parsedate_to_datetime
from typing import TypeAlias

from lagotto.documents import storable
from lagotto.readers.builder import TextBuilder, one_line
from lagotto.readers.decode import decode
from lagotto.readers.html.main_content import boilerplate
from lagotto.readers.html.reader import declared_encoding, parse
from lagotto.readers.html.render import render

SHOWN = ("From", "To", "Cc", "Date", "Subject")
MOST_HEADER = 10_000
MOST_PARTS = 2_000
"""Messages have a few parts; each further one is left out."""

Part: TypeAlias = "Message[str, str]"


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file in a message; `data` of an attached message is that message."""

    name: str
    data: bytes


def parse_message(data: bytes) -> Part:
    """Parse a message; anything at all is one. RecursionError if it is nested too deeply."""
    # The newer policies raise on many malformed headers.
    return email.message_from_bytes(data, policy=email.policy.compat32)


def header(message: Part, name: str) -> str:
    """A header as text on one line, its encoded words decoded; empty if there is none."""
    return _decoded(str(message.get(name, ""))[:MOST_HEADER])


def _decoded(written: str) -> str:
    try:
        pieces = decode_header(written)
    except (MessageError, ValueError, LookupError):
        return storable(one_line(written))
    decoded = (
        decode(piece, declared=charset) if isinstance(piece, bytes) else piece
        for piece, charset in pieces
    )
    return storable(one_line("".join(decoded)))


def addresses(message: Part, name: str) -> list[str]:
    """The addresses of a header, without names; none if they are nested too deeply."""
    try:
        found = getaddresses([header(message, name)])
    except RecursionError:
        return []
    return [address.lower() for _, address in found if "@" in address]


def sent_at(message: Part) -> datetime | None:
    """The date of a message."""
    try:
        moment = parsedate_to_datetime(header(message, "Date"))
        return moment if 1 < moment.year < 9999 else None
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def body(message: Part) -> TextBuilder:
    """The shown headers, then the plain text of the message, or else its HTML as text."""
    builder = TextBuilder()
    shown = ((name, header(message, name)) for name in SHOWN)
    builder.paragraph("\n".join(f"{name}: {text}" for name, text in shown if text))
    texts = {"text/plain": "", "text/html": ""}
    for part in leaves(message):
        kind = part.get_content_type()
        if kind in texts and not _is_attached(part):
            text = _text(part)
            texts[kind] += f"\n\n{text}" if texts[kind] and text else text
    if texts["text/plain"].strip():
        builder.paragraph(texts["text/plain"])
    elif texts["text/html"].strip():
        page = parse(texts["text/html"])
        if page is not None:
            root = next(page.iter("body"), page)
            render(root, skip=boilerplate(root, whole_page=False), builder=builder)
    return builder


def attachments(message: Part) -> Iterator[Attachment]:
    """The attached files and messages; pictures shown in the text are files too."""
    for number, part in enumerate(leaves(message), start=1):
        if part.get_content_type() == "message/rfc822":
            inner = next(iter(_parts(part)), None)
            if inner is not None:
                name = header(inner, "Subject") or f"message {number}"
                yield Attachment(f"{_safe(name)}.eml", inner.as_bytes())
        elif _is_attached(part):
            yield Attachment(_safe(_file_name(part) or f"attachment {number}"), _bytes(part))


def leaves(message: Part) -> Iterator[Part]:
    """The parts that are not multipart; those of attached messages belong to these."""
    waiting: list[Part] = [message]
    seen = 0
    while waiting and seen < MOST_PARTS:
        part = waiting.pop()
        seen += 1
        if part.get_content_type() != "message/rfc822" and part.is_multipart():
            waiting += reversed(_parts(part))
        else:
            yield part


def _parts(part: Part) -> list[Part]:
    """The parts inside a part; none if it is text, which its charset might fail to decode."""
    held = part.get_payload() if part.is_multipart() else ()
    return [inner for inner in held if isinstance(inner, Message)]


def _is_attached(part: Part) -> bool:
    if part.get_content_disposition() == "attachment" or _file_name(part):
        return True
    return part.get_content_maintype() not in ("text", "multipart", "message")


def _file_name(part: Part) -> str:
    try:
        return _decoded(part.get_filename() or "")
    except (MessageError, ValueError, LookupError, TypeError):
        return ""


def _safe(name: str) -> str:
    """A name without folders, which a message may not choose."""
    return name.replace("\\", "/").rpartition("/")[2][:200] or "attachment"


def _bytes(part: Part) -> bytes:
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""


def _text(part: Part) -> str:
    data = _bytes(part)
    try:
        charset = part.get_content_charset()
    except (LookupError, ValueError, TypeError):
        charset = None
    if charset is None and part.get_content_type() == "text/html":
        charset = declared_encoding(data)
    return storable(decode(data, declared=charset))
