"""Messages and a mailbox, made on the spot."""

from __future__ import annotations

from email.message import EmailMessage

from tests.readers import samples


def make_mail() -> bytes:
    """A message with plain text and HTML, a table, a PDF, a picture and another message."""
    message = EmailMessage()
    message["From"] = "Ann Ångström <Ann@example.org>"
    message["To"] = "bob@example.org, Cy <cy@example.org>"
    message["Date"] = "Mon, 06 May 2024 07:08:09 +0200"
    message["Subject"] = "Cats & naïve dogs"
    message["Message-ID"] = "<1@example.org>"
    message.set_content("Cats sleep a lot.\n\nAnn\n")
    message.add_alternative("<p>Cats <b>sleep</b>.</p>", subtype="html")
    message.add_attachment(samples.CSV, subtype="csv", filename="cats.csv")
    message.add_attachment(samples.PDF, maintype="application", subtype="pdf", filename="cats.pdf")
    message.add_attachment(
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", maintype="image", subtype="png", filename="cat.png"
    )
    inner = EmailMessage()
    inner["Subject"] = "Fwd"
    inner["Message-ID"] = "<2@example.org>"
    inner.set_content("The inner one.")
    message.add_attachment(inner)
    return message.as_bytes()


def make_mailbox() -> bytes:
    """Three messages: one with quoted `From ` lines, one without an id, one with the id again."""
    return (
        b"From ann@b Mon May  6 07:08:09 2024\nSubject: one\nMessage-ID: <a@b>\n\n"
        b"First.\n\n>From here on.\n>>From a quotation.\n\n"
        b"From ann@b Mon May  6 07:09:09 2024\nSubject: two\n\nSecond.\n\n"
        b"From ann@b Mon May  6 07:10:09 2024\nSubject: again\nMessage-ID: <a@b>\n\nThird.\n\n"
    )
