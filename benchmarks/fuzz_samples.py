"""Valid files of every format that has a reader, small and made here, for the fuzzer to mutate."""

from __future__ import annotations

import json
import zipfile
from functools import cache
from importlib.resources import files
from io import BytesIO

from lagotto.readers.formats import SUFFIXES

RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
ODF = "urn:oasis:names:tc:opendocument:xmlns"
CORE = """<c xmlns:d="http://purl.org/dc/elements/1.1/"><d:title>Dogs</d:title>
<d:creator>Ann</d:creator><d:created>2024-05-06T07:08:09Z</d:created></c>"""


def _related(*targets: tuple[str, str]) -> str:
    held = "".join(
        f'<Relationship Id="r{n}" Type="{RELATIONS}/{kind}" Target="{target}"/>'
        for n, (kind, target) in enumerate(targets, start=1)
    )
    return f"<Relationships>{held}</Relationships>"


def _slide(title: str) -> str:
    return f"""<p:sld xmlns:p="p" xmlns:a="a"><p:cSld><p:spTree><p:sp><p:nvSpPr><p:nvPr>
<p:ph type="title"/></p:nvPr></p:nvSpPr><p:txBody><a:p><a:r><a:t>{title}</a:t></a:r></a:p>
</p:txBody></p:sp><p:sp><p:nvSpPr><p:nvPr><p:ph idx="1"/></p:nvPr></p:nvSpPr><p:txBody><a:p>
<a:r><a:t>one</a:t></a:r></a:p><a:p><a:pPr lvl="1"/><a:r><a:t>two</a:t></a:r></a:p>
</p:txBody></p:sp><p:graphicFrame>
<a:tbl><a:tr><a:tc><a:txBody><a:p><a:r><a:t>oak</a:t></a:r></a:p></a:txBody></a:tc></a:tr></a:tbl>
</p:graphicFrame></p:spTree></p:cSld></p:sld>"""


PARTS: dict[str, dict[str, str]] = {
    "docx": {
        "word/document.xml": """<w:document xmlns:w="w"><w:body><w:p><w:pPr><w:pStyle w:val="h"/>
</w:pPr><w:r><w:t>Truffles</w:t></w:r></w:p><w:p><w:pPr><w:numPr><w:ilvl w:val="1"/><w:numId
w:val="2"/></w:numPr></w:pPr><w:r><w:t>They grow on roots.</w:t></w:r></w:p><w:tbl><w:tr><w:tc><w:p>
<w:r><w:t>oak</w:t></w:r></w:p></w:tc></w:tr></w:tbl></w:body></w:document>""",
        "word/styles.xml": '<w:styles xmlns:w="w"><w:style w:styleId="h"><w:name '
        'w:val="heading 1"/><w:basedOn w:val="h"/></w:style></w:styles>',
        "docProps/core.xml": CORE,
    },
    "pptx": {
        "ppt/presentation.xml": f'<p xmlns:r="{RELATIONS}"><sldIdLst><sldId r:id="r1"/>'
        '<sldId r:id="r2"/></sldIdLst></p>',
        "ppt/_rels/presentation.xml.rels": _related(("slide", "s1.xml"), ("slide", "/ppt/s2.xml")),
        "ppt/s1.xml": _slide("Dogs"),
        "ppt/s2.xml": _slide("Truffles"),
        "ppt/_rels/s2.xml.rels": _related(("notesSlide", "s1.xml")),
        "docProps/core.xml": CORE,
    },
    "xlsx": {
        "xl/workbook.xml": f'<w xmlns:r="{RELATIONS}"><workbookPr/><sheets><sheet name="Hours" '
        'r:id="r1"/></sheets></w>',
        "xl/_rels/workbook.xml.rels": _related(
            ("worksheet", "s1.xml"), ("sharedStrings", "t.xml"), ("styles", "st.xml")
        ),
        "xl/s1.xml": '<worksheet><sheetData><row r="1"><c r="A1" t="s"><v>0</v></c><c r="C1" s="1">'
        '<v>45000.5</v></c></row><row><c t="inlineStr"><is><t>in</t></is></c><c><v>0.1</v></c>'
        "</row></sheetData></worksheet>",
        "xl/t.xml": "<sst><si><t>dog</t></si><si><r><t>a</t></r></si></sst>",
        "xl/st.xml": '<s><numFmts><numFmt numFmtId="164" formatCode="yyyy-mm"/></numFmts><cellXfs>'
        '<xf numFmtId="0"/><xf numFmtId="164"/></cellXfs></s>',
        "docProps/core.xml": CORE,
    },
    "odt": {
        "content.xml": f"""<o:d xmlns:o="{ODF}:office:1.0" xmlns:t="{ODF}:text:1.0"
xmlns:b="{ODF}:table:1.0"><o:body><o:text><t:h t:outline-level="1">Dogs</t:h><t:p>They<t:s t:c="3"/>
find <t:span>truffles</t:span>.</t:p><t:list><t:list-item><t:p>one</t:p><t:list><t:list-item>
<t:p>two</t:p></t:list-item></t:list></t:list-item></t:list><b:table><b:table-row><b:table-cell
b:number-columns-repeated="2"><t:p>oak</t:p></b:table-cell></b:table-row></b:table></o:text></o:body>
</o:d>""",
        "meta.xml": "<d><meta><title>Dogs</title><keyword>a</keyword></meta></d>",
        "META-INF/manifest.xml": "<manifest/>",
    },
    "epub": {
        "META-INF/container.xml": '<c><rootfiles><rootfile full-path="o/c.opf"/></rootfiles></c>',
        "o/c.opf": "<p><metadata><title>Dogs</title><language>en</language></metadata><manifest>"
        '<item id="a" href="a%20b.xhtml" media-type="application/xhtml+xml"/></manifest>'
        '<spine><itemref idref="a"/></spine></p>',
        "o/a b.xhtml": "<html><body><h1>Dogs</h1><p>They find truffles.</p></body></html>",
    },
}
MAIL = b"""From: Ann <ann@example.org>
To: =?utf-8?q?B=C3=B6b?= <bob@example.org>, "C, D" <c@example.org>
Date: Mon, 06 May 2024 07:08:09 +0200
Subject: =?koi8-r?B?68/by8k=?= dogs
Message-ID: <1@example.org>
Content-Type: multipart/mixed; boundary="b"

--b
Content-Type: multipart/alternative; boundary="c"

--c
Content-Type: text/plain; charset="iso-8859-1"
Content-Transfer-Encoding: quoted-printable

Dogs find tr=FCffles.
--c
Content-Type: text/html

<p>Dogs <b>find</b></p>
--c--
--b
Content-Type: text/csv; name*=utf-8''a%20b.csv
Content-Disposition: attachment; filename="a.csv"
Content-Transfer-Encoding: base64

aWQsdGV4dAoxLG9uZQo=
--b
Content-Type: message/rfc822

Subject: inner

Inner text.
--b--
"""
RST = b"""====
Dogs
====

:Author: Ann

Truffles
--------

=====  =====
a      b
=====  =====
1      2
=====  =====

- one
- two

Code::

    dig()

+---+
| a |
+---+
"""
NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "source": ["# Dogs\n", "\n- a\n- b\n"]},
        {"cell_type": "code", "source": "dig()", "outputs": [{"text": "found"}]},
    ],
    "metadata": {"language_info": {"name": "python"}},
}
TEXTS: dict[str, list[bytes]] = {
    "text": [b"A water dog.\n\nIt finds truffles.\n"],
    "code": [b"class A:\n    def f(self):\n        return 1\n"],
    "jsonl": [b'{"id": 1, "text": "one", "year": 2020}\n{"text": "two"}\n'],
    "csv": [b'id,text,year\n1,"one, two",2020\n2,three,\n'],
    "rst": [RST],
    "notebook": [json.dumps(NOTEBOOK).encode()],
    "subtitles": [
        b"1\n00:00:01,000 --> 00:00:02,000\nDogs <i>dig</i>.\n\n"
        b"2\n00:02:03,000 --> 00:02:04,000\nA",
        b"WEBVTT\n\nNOTE no\n\na\n00:01.000 --> 00:02.000\n<v Ann>Dogs &amp; roots</v>\n",
    ],
    "mail": [MAIL],
    "mailbox": [b"From a Mon May 6\n" + MAIL + b"\nFrom b Mon May 6\nSubject: x\n\n>From y\n"],
}


def packed(parts: dict[str, bytes]) -> bytes:
    """A zip archive of these parts."""
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return stream.getvalue()


@cache
def samples() -> dict[str, list[bytes]]:
    """Valid files of each format; those of the demo are among them."""
    found = {name: list(TEXTS.get(name, ())) for name in SUFFIXES}
    for name, parts in PARTS.items():
        found[name].append(packed({part: text.encode() for part, text in parts.items()}))
    by_suffix = {suffix: name for name, known in SUFFIXES.items() for suffix in known}
    for file in (files("lagotto.demo") / "corpus").iterdir():
        name = by_suffix.get("." + file.name.rpartition(".")[2], "")
        if name:
            found[name].append(file.read_bytes())
    return found
