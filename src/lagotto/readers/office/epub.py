"""EPUB books: the chapters in reading order, with their headings."""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import dirname, join, normpath
from urllib.parse import unquote

from lxml import etree

from lagotto.errors import EncryptedSourceError
from lagotto.readers.base import Draft, TextBuilder
from lagotto.readers.decode import decode
from lagotto.readers.html import declared_encoding, has_no_text, parse, render
from lagotto.readers.office import xml
from lagotto.readers.office.package import Package, Properties, package_reader

CONTAINER, ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
CHAPTERS = frozenset({"application/xhtml+xml", "text/html"})
FONT_OBFUSCATION = frozenset(
    {"http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"}
)
"""Not a protection of the text."""


@package_reader("epub", noun="EPUB book")
def read_epub(package: Package) -> Draft:
    """Read the chapters of a book as one document; its tables of contents are left out."""
    encryption = package.xml(ENCRYPTION)
    methods = () if encryption is None else encryption.iter("{*}EncryptionMethod")
    if any(xml.value(method, "Algorithm") not in FONT_OBFUSCATION for method in methods):
        raise EncryptedSourceError(package.source.label, "copy-protected EPUB book")
    rootfile = xml.child(package.xml(package.require(CONTAINER)), "rootfiles", "rootfile")
    main = package.require(normpath(xml.value(rootfile, "full-path") or ""))
    root = package.xml(main)
    builder = TextBuilder()
    for chapter in _chapters(root, main):
        data = package.read(chapter)
        page = parse(decode(data, declared=declared_encoding(data)))
        if page is not None:
            render(next(page.iter("body"), page), skip=has_no_text, builder=builder)
    properties = Properties(xml.child(root, "metadata"))
    fields = properties.fields(
        created="date",
        author=properties.all("creator"),
        publisher=properties.first("publisher"),
        keywords=properties.all("subject"),
    )
    return builder.draft(**fields)


def _chapters(root: etree._Element | None, main: str) -> Iterator[str]:
    items = xml.children(xml.child(root, "manifest"), "item")
    manifest = {xml.value(item, "id"): item for item in items}
    seen = set()
    for reference in xml.children(xml.child(root, "spine"), "itemref"):
        item = manifest.get(xml.value(reference, "idref"))
        contents = "nav" in (xml.value(item, "properties") or "").split()
        if item is None or contents or xml.value(item, "media-type") not in CHAPTERS:
            continue
        path = normpath(join(dirname(main), unquote(xml.value(item, "href") or "")))
        if path not in seen:
            seen.add(path)
            yield path
