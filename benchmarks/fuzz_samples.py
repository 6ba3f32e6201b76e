"""Valid files of every format that has a reader, for the fuzzer to mutate.

Archives are made of small parts: in those of the libraries, few bytes are ever read.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.resources import files
from pathlib import Path

from lagotto.readers.formats import SUFFIXES

sys.path.append(str(Path(__file__).parent.parent))  # the sample files of the tests, in tests/

from tests.readers.samples import NOTEBOOK, make_zip
from tests.readers.test_contract import SAMPLES

__all__ = ["NOTEBOOK", "PARTS", "make_zip", "samples"]

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


@cache
def samples() -> dict[str, list[bytes]]:
    """Valid files of each format: those of the tests, of PARTS, and of the demo."""
    found = {name: [sample] for name, sample in SAMPLES.items()}
    for name, parts in PARTS.items():
        found[name].append(make_zip(dict(parts)))
    by_suffix = {suffix: name for name, known in SUFFIXES.items() for suffix in known}
    for file in (files("lagotto.demo") / "corpus").iterdir():
        if reader := by_suffix.get("." + file.name.rpartition(".")[2]):
            found[reader].append(file.read_bytes())
    return found
