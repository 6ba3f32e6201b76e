"""Messages, mailboxes and what is attached to them."""

from __future__ import annotations

from datetime import UTC, datetime
from email.message import EmailMessage

import pytest

from lagotto.documents import Document
from lagotto.errors import CorruptSourceError, EmptySourceError, ReadError, SourceTooLargeError
from lagotto.readers import READERS, ReadOptions, Source, read_bytes
from lagotto.results import named_document
from tests.readers.mail_samples import make_mail, make_mailbox


def read(data: bytes, reader: str = "mail", **options: int) -> list[Document | ReadError]:
    source = Source(name=f"x.{reader}", data=data)
    return list(READERS.get(reader)().read(source, options=ReadOptions(**options)))


def test_headers_and_body() -> None:
    message, *_ = read_bytes(make_mail(), name="a.eml")
    assert message.text == (
        "From: Ann Ångström <Ann@example.org>\nTo: bob@example.org, Cy <cy@example.org>\n"
        "Date: Mon, 06 May 2024 07:08:09 +0200\nSubject: Cats & naïve dogs\n\n"
        "Cats sleep a lot.\n\nAnn"
    )
    assert message.title == "Cats & naïve dogs"
    assert message.created_at == datetime(2024, 5, 6, 5, 8, 9, tzinfo=UTC)
    assert message.metadata == {
        "from": "ann@example.org",
        "to": ["bob@example.org", "cy@example.org"],
        "message_id": "<1@example.org>",
        "attachments": ["cats.csv", "cats.pdf", "cat.png", "Fwd.eml"],
    }


def test_attachments_are_documents_of_the_same_source() -> None:
    message, *attached = read_bytes(make_mail(), name="a.eml")
    assert {document.source for document in attached} == {message.source}
    assert [(item.kind, item.source_ref) for item in attached] == [
        ("row", "cats.csv/1"),
        ("row", "cats.csv/2"),
        ("pdf", "cats.pdf"),
        ("mail", "<2@example.org>"),
    ]
    pdf = attached[2]
    assert pdf.metadata["attachment"] == "cats.pdf"
    assert pdf.metadata["message"] == "Cats & naïve dogs"
    assert pdf.metadata["from"] == "ann@example.org"
    assert attached[3].text.endswith("The inner one.")


def test_html_where_there_is_no_plain_text() -> None:
    message = EmailMessage()
    message["Subject"] = "Page"
    message.set_content(
        "<h1>Cats</h1><p>They <b>sleep</b>.</p><div style='display:none'>preview</div>",
        subtype="html",
    )
    [document] = read_bytes(message.as_bytes(), name="a.eml")
    assert document.text == "Subject: Page\n\nCats\n\nThey sleep."
    assert [heading.title for heading in document.headings] == ["Cats"]


def test_legacy_charsets_and_one_that_no_codec_may_have() -> None:
    head = b"Subject: =?koi8-r?Q?=EB=CF=DB=CB=C9?=\nContent-Type: text/plain; charset=koi8-r\n\n"
    [document] = read_bytes(head + "Кошки спят.".encode("koi8-r"), name="a.eml")
    assert (document.title, document.text) == ("Кошки", "Subject: Кошки\n\nКошки спят.")
    head = b'Subject: Cats\nContent-Type: text/plain; charset="a\0b"\n\n'
    [document] = read_bytes(head + "Schläfrig sind sie.".encode(), name="a.eml")
    assert document.text == "Subject: Cats\n\nSchläfrig sind sie."


def test_addresses_in_groups_of_groups() -> None:
    [document] = read_bytes(b"From: " + b":" * 5_000 + b"\nSubject: Cats\n\nText.", name="a.eml")
    assert document.title == "Cats"
    assert "from" not in document.metadata


def test_a_damaged_attachment_fails_alone() -> None:
    message = EmailMessage()
    message.set_content("Text.")
    message.add_attachment(b"%PDF-1.4 no", maintype="application", subtype="pdf", filename="b.pdf")
    message.add_attachment("fine", filename="c.txt")
    results = read(message.as_bytes())
    assert [type(result) for result in results] == [Document, CorruptSourceError, Document]
    assert "attachment b.pdf" in str(results[1])


def test_names_of_attachments_have_no_folders_and_are_told_apart() -> None:
    message = EmailMessage()
    message.set_content("Text.")
    for _ in range(2):
        message.add_attachment("fine", filename="../../etc/a.txt")
    references = [
        item.source_ref for item in read(message.as_bytes()) if isinstance(item, Document)
    ]
    assert references == [None, "a.txt", "a.txt (2)"]


def test_messages_in_messages() -> None:
    message = EmailMessage()
    message.set_content("innermost")
    for depth in range(12):
        outer = EmailMessage()
        outer["Subject"] = f"depth {depth}"
        outer.set_content(f"at {depth}")
        outer.add_attachment(message)
        message = outer
    documents = read(message.as_bytes())
    assert len(documents) == 5


def test_parts_nested_without_end() -> None:
    opened = b"".join(
        b'Content-Type: multipart/mixed; boundary="%d"\n\n--%d\n' % (n, n) for n in range(3000)
    )
    with pytest.raises(CorruptSourceError, match="nested too deeply"):
        read(opened)


def test_a_mailbox() -> None:
    documents = list(read_bytes(make_mailbox(), name="a.mbox"))
    assert [(item.title, item.source_ref) for item in documents] == [
        ("one", "<a@b>"),
        ("two", "message 2"),
        ("again", "<a@b> (2)"),
    ]
    assert documents[0].text.endswith("First.\n\nFrom here on.\n>From a quotation.")
    assert len({item.id for item in documents}) == 3


def test_a_mailbox_is_read_message_by_message() -> None:
    with pytest.raises(SourceTooLargeError, match="a message is larger than 60 bytes"):
        read(make_mailbox(), "mailbox", max_bytes=60)
    big = make_mailbox() * 3
    assert len(read(big, "mailbox", max_bytes=len(big) // 2)) == 9


def test_not_mail() -> None:
    with pytest.raises(CorruptSourceError, match="not a mailbox"):
        read(b"just words\n", "mailbox")
    with pytest.raises(EmptySourceError):
        read(b"\n", "mail")


def test_rows_of_an_attachment_are_cited_by_its_name() -> None:
    message = EmailMessage()
    message["Subject"] = "The programme"
    message.set_content("See the attachment.")
    message.add_attachment("day,talk\n1,Ferries\n2,Cranes\n", subtype="csv", filename="plan.csv")
    _, *rows = read_bytes(message.as_bytes(), name="mail.eml")
    assert [row.title for row in rows] == ["plan.csv", "plan.csv"]
    assert (
        named_document(rows[0].title, rows[0].source, rows[0].kind, rows[0].metadata)
        == "plan.csv (mail.eml)"
    )
    assert rows[0] == Document(**rows[0].model_dump(exclude={"content_hash"}))
