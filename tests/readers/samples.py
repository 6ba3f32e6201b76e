"""Small files of every format, made on the spot."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import docx
from pypdf import PdfReader, PdfWriter

from lagotto.documents import Document
from lagotto.readers import ReadFailure, ReadOptions, load, read_bytes
from tests.readers.pdf_maker import Bookmark, make_pdf

MARKDOWN = """---
title: On cats
author: Ann
date: 2024-05-06
lang: en-GB
tags: [cats, sleep]
---
# Cats

Cats sleep a lot.

## Facts

| cat | hours |
|-----|-------|
| Tom | 16    |
| Kit | 14    |

- eat
- sleep
  - deeply

```python
# no heading
nap()
```
"""

HTML = """<!doctype html>
<html lang="en-US"><head><title>On  cats</title>
<meta name="author" content="Ann"><meta name="description" content="All about cats">
<meta property="article:published_time" content="2024-05-06T07:08:09Z">
<script>evil()</script></head>
<body><nav><a href="/">Home</a></nav>
<main><h1>Cats</h1><p>Cats sleep <b>a&nbsp;lot</b>,<br>really &amp; truly.</p>
<h2>Facts</h2>
<table><tr><th>cat<th>hours<tr><td>Tom<td>16<tr><td>Kit<td>14</table>
<ul><li>eat<li>sleep<ul><li>deeply</ul></ul>
<pre>if cat:
    nap()</pre></main>
<footer>Imprint</footer></body></html>
"""

PDF = make_pdf(
    [["Cats", "Cats sleep a lot."], ["Facts", "Tom sleeps 16 hours."]],
    outline=[Bookmark("Cats", 0, (Bookmark("Facts", 1),)), Bookmark("Gone", 1)],
    info={"Title": "On cats", "Author": "Ann", "CreationDate": "D:20240506070809+02'00'"},
    labels={0: "/r", 1: "/D"},
)

PYTHON = '''"""A cat."""


class Cat:
    """Sleeps."""

    def nap(self) -> None:
        pass


def feed() -> None:
    pass
'''

RST = """====
Cats
====

:Author: Ann
:Date: 2024-05-06

Cats sleep a lot.

Facts
-----

====  =====
cat   hours
====  =====
Tom   16
Kit   14
====  =====

- eat
- sleep,
  deeply

Food and *sleep*
----------------

.. code-block:: python
   :linenos:

   nap()

   nap()

Like this::

   purr()

At night
~~~~~~~~

+---+---+
| a | b |
+===+===+
| c | d |
+---+---+
"""

NOTEBOOK: dict[str, object] = {
    "cells": [
        {"cell_type": "markdown", "source": ["# Cats\n", "\n", "Cats sleep a lot."]},
        {
            "cell_type": "code",
            "source": "import cats\n\ncats.nap()",
            "outputs": [{"output_type": "stream", "text": ["purr"]}],
        },
        {"cell_type": "markdown", "source": "## Facts\n\n- eat\n- sleep\n"},
        {"cell_type": "code", "source": []},
        {"cell_type": "raw", "source": "raw"},
    ],
    "metadata": {"language_info": {"name": "python"}},
    "nbformat": 4,
}

SRT = """1
00:00:01,000 --> 00:00:02,000
Here, <i>kitty</i>!

2
00:00:02,500 --> 00:00:04,000
{\\an8}Dinner &amp; sleep.

3
01:02:00,000 --> 01:02:03,000
Good night.
1984
"""

VTT = """WEBVTT - a film

NOTE nobody
says this

STYLE
::cue { color: red }

intro
00:01.000 --> 00:02.000 align:start
<v Ann>Here, kitty!</v>

00:02.000 --> 00:04.000
<v.loud Bob>Dinner.</v>
<c.yellow>Now.</c>
"""

JSONL = """{"_id": "a", "title": "Tom", "text": "Tom sleeps.", "year": 2024}
{"_id": "b", "text": "Kit eats."}
"""

CSV = 'id,title,body,year\n1,Tom,"Tom sleeps, a lot.",2024\n2,Kit,Kit eats.,2023\n'


def only(data: bytes | str, name: str, options: ReadOptions | None = None) -> Document:
    """The one document in `data`."""
    encoded = data.encode() if isinstance(data, str) else data
    [document] = read_bytes(encoded, name=name, options=options)
    return document


def texts(document: Document, kind: str) -> list[str]:
    """The texts of the parts of the only block of a kind, or of the block if it has no parts."""
    [block] = [block for block in document.blocks if block.kind == kind]
    spans = block.parts or ((block.start, block.end),)
    return [document.text[start:end] for start, end in spans]


def make_docx() -> bytes:
    """A Word file with a title, headings, a nested list and a table."""
    file = docx.Document()
    file.core_properties.title = "On cats"
    file.core_properties.author = "Ann"
    file.core_properties.created = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC).replace(tzinfo=None)
    file.add_heading("Cats", level=1)
    file.add_paragraph("Cats sleep a lot.")
    file.add_heading("Facts", level=2)
    table = file.add_table(rows=0, cols=2)
    for cat, hours in [("cat", "hours"), ("Tom", "16"), ("Kit", "14")]:
        cells = table.add_row().cells
        cells[0].text, cells[1].text = cat, hours
    file.add_paragraph("eat", style="List Bullet")
    file.add_paragraph("sleep", style="List Bullet")
    file.add_paragraph("deeply", style="List Bullet 2")
    file.add_paragraph("The end.")
    stream = io.BytesIO()
    file.save(stream)
    return stream.getvalue()


def failure_of(paths: str | Path | Sequence[str | Path], **options: Any) -> ReadFailure:
    """Why it can't be read, the only result."""
    (failure,) = load(paths, **options)
    assert isinstance(failure, ReadFailure)
    return failure


def make_zip(parts: dict[str, bytes | str]) -> bytes:
    """A zip file with these parts."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return stream.getvalue()


def docx_body(body: str, *, doctype: str = "") -> bytes:
    """A Word file with this XML as its body and nothing else."""
    namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    xml = f'<w:document xmlns:w="{namespace}"><w:body>{body}</w:body></w:document>'
    return make_zip({"word/document.xml": f'<?xml version="1.0"?>{doctype}{xml}'})


def encrypted(pdf: bytes, *, user: str, owner: str) -> bytes:
    """The PDF with passwords on it."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf)))
    writer.encrypt(user_password=user, owner_password=owner, algorithm="RC4-128")
    stream = io.BytesIO()
    writer.write(stream)
    return stream.getvalue()
