"""Small PDF files that make a parser loop or allocate without bound."""

from __future__ import annotations

import zlib


def pdf_of(contents: bytes, *, filters: str = "", resources: str = "", extra: bytes = b"") -> bytes:
    """A PDF with one page that draws `contents`; `extra` are further objects, from number 6."""
    font = b"5 0 obj\n<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>\nendobj\n"
    page = (
        "3 0 obj\n<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R "
        f"/Resources << /Font << /F1 5 0 R >> {resources} >> >>\nendobj\n"
    )
    stream = f"4 0 obj\n<< /Length {len(contents)} {filters} >>\nstream\n".encode()
    return b"".join(
        (
            b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n",
            b"2 0 obj\n<< /Type /Pages /Kids [3 0 R] /Count 1 >>\nendobj\n",
            page.encode(),
            stream + contents + b"\nendstream\nendobj\n",
            font,
            extra,
            b"trailer\n<< /Size 100 /Root 1 0 R >>\n%%EOF\n",
        )
    )


def nested_forms(*, depth: int = 12, width: int = 12) -> bytes:
    """Forms that each draw the next one `width` times: `width ** depth` drawings in all."""
    objects = []
    for level in range(depth):
        number = 6 + level
        below = f"/XObject << /X {number + 1} 0 R >>" if level < depth - 1 else ""
        draws = b"/X Do\n" * width if below else b"BT /F1 9 Tf (deep) Tj ET\n"
        objects.append(
            f"{number} 0 obj\n<< /Type /XObject /Subtype /Form /BBox [0 0 600 800] /Length "
            f"{len(draws)} /Resources << /Font << /F1 5 0 R >> {below} >> >>\nstream\n".encode()
            + draws
            + b"\nendstream\nendobj\n"
        )
    return pdf_of(b"/X Do\n", resources="/XObject << /X 6 0 R >>", extra=b"".join(objects))


def double_flate(*, texts: int = 28_000_000) -> bytes:
    """A page of 600 MB, deflated twice to a few kilobytes."""
    packer = zlib.compressobj(9)
    piece = b"BT /F1 9 Tf (a) Tj ET\n" * 10_000
    once = b"".join(packer.compress(piece) for _ in range(texts // 10_000)) + packer.flush()
    return pdf_of(zlib.compress(once, 9), filters="/Filter [/FlateDecode /FlateDecode]")
