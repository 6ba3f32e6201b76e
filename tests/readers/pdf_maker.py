"""Makes small PDF files: pages of lines, an outline, page labels, document information."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Bookmark:
    """An entry of the outline, `page` counted from 0, with the entries below it."""

    title: str
    page: int
    below: tuple[Bookmark, ...] = ()


class _Objects:
    def __init__(self) -> None:
        self.bodies: list[str] = []

    def reserve(self) -> int:
        self.bodies.append("null")
        return len(self.bodies)

    def put(self, number: int, body: str) -> None:
        self.bodies[number - 1] = body

    def add(self, body: str) -> int:
        number = self.reserve()
        self.put(number, body)
        return number

    def file(self, *, root: int, info: int) -> bytes:
        out, offsets = b"%PDF-1.4\n", []
        for number, body in enumerate(self.bodies, start=1):
            offsets.append(len(out))
            out += f"{number} 0 obj\n{body}\nendobj\n".encode("latin-1")
        start = len(out)
        table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
        size = len(offsets) + 1
        trailer = f"trailer\n<< /Size {size} /Root {root} 0 R /Info {info} 0 R >>\n"
        tail = f"xref\n0 {size}\n0000000000 65535 f \n{table}{trailer}startxref\n{start}\n%%EOF\n"
        return out + tail.encode()


def make_pdf(
    pages: Sequence[Sequence[str]],
    *,
    outline: Sequence[Bookmark] = (),
    info: Mapping[str, str] | None = None,
    labels: str = "",
) -> bytes:
    """A PDF with one page per list of lines; `labels` is the raw /Nums array of the page labels."""
    objects = _Objects()
    catalog, tree = objects.reserve(), objects.reserve()
    font = objects.add("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    numbers = [_page(objects, lines, tree=tree, font=font) for lines in pages]
    kids = " ".join(f"{number} 0 R" for number in numbers)
    objects.put(tree, f"<< /Type /Pages /Kids [{kids}] /Count {len(numbers)} >>")
    extra = f" /PageLabels << /Nums [{labels}] >>" if labels else ""
    if outline:
        top = objects.reserve()
        _bookmarks(objects, outline, parent=top, pages=numbers)
        extra += f" /Outlines {top} 0 R"
    objects.put(catalog, f"<< /Type /Catalog /Pages {tree} 0 R{extra} >>")
    entries = " ".join(f"/{key} {_string(value)}" for key, value in (info or {}).items())
    return objects.file(root=catalog, info=objects.add(f"<< {entries} >>"))


def _page(objects: _Objects, lines: Sequence[str], *, tree: int, font: int) -> int:
    shown = " ".join(f"{_string(line)} Tj T*" for line in lines)
    stream = f"BT /F1 12 Tf 72 720 Td 14 TL {shown} ET"
    content = objects.add(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    return objects.add(
        f"<< /Type /Page /Parent {tree} 0 R /MediaBox [0 0 612 792] /Contents {content} 0 R "
        f"/Resources << /Font << /F1 {font} 0 R >> >> >>"
    )


def _bookmarks(
    objects: _Objects, bookmarks: Sequence[Bookmark], *, parent: int, pages: Sequence[int]
) -> None:
    numbers = [objects.reserve() for _ in bookmarks]
    for index, (bookmark, number) in enumerate(zip(bookmarks, numbers, strict=True)):
        destination = f"[{pages[bookmark.page]} 0 R /Fit]"
        body = f"/Title {_string(bookmark.title)} /Parent {parent} 0 R /Dest {destination}"
        if index:
            body += f" /Prev {numbers[index - 1]} 0 R"
        if index + 1 < len(numbers):
            body += f" /Next {numbers[index + 1]} 0 R"
        objects.put(number, f"<< {body} >>")
        if bookmark.below:
            _bookmarks(objects, bookmark.below, parent=number, pages=pages)
    first, last = f"/First {numbers[0]} 0 R", f"/Last {numbers[-1]} 0 R"
    whole = objects.bodies[parent - 1].removesuffix(" >>").removeprefix("null")
    start = whole or "<< /Type /Outlines"
    objects.put(parent, f"{start} {first} {last} /Count {len(numbers)} >>")


def _string(text: str) -> str:
    escaped = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
    return f"({escaped})"
