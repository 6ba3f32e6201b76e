from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lagotto.errors import CorruptSourceError, EncryptedSourceError
from tests.readers.office_samples import ODT_CONTENT, make_odt
from tests.readers.samples import make_zip, only, texts


def test_text_structure_and_properties() -> None:
    document = only(make_odt(), "cats.odt")
    assert document.text == (
        "Cats\n\nCats sleep a lot,\nreally.\n\nFacts\n\ncat | hours\nTom | 16\n\n"
        "- eat\n- sleep\n  - deeply\n\nIn a box."
    )
    assert [(item.title, item.level) for item in document.headings] == [("Cats", 1), ("Facts", 2)]
    assert texts(document, "table") == ["cat | hours", "Tom | 16"]
    assert texts(document, "list") == ["- eat", "- sleep\n  - deeply"]
    assert document.title == "On cats"
    assert document.metadata == {"author": "Ann", "keywords": "cats, sleep"}
    assert document.created_at == datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)


def test_a_million_columns() -> None:
    cell = '<table:table-cell table:number-columns-repeated="1000000"><text:p>x</text:p>'
    wide = ODT_CONTENT.replace("<table:table-cell><text:p>Tom</text:p>", f"{cell}")
    assert len(only(make_odt(wide), "a.odt").text) < 2000


def test_boxes_in_boxes() -> None:
    """Each box is read once, however deep."""
    box = "<draw:frame><draw:text-box><text:p>x"
    end = "</text:p></draw:text-box></draw:frame>"
    deep = ODT_CONTENT.replace("In a box.", box * 40 + end * 40)
    assert only(make_odt(deep), "a.odt").text.count("x") == 40


def test_passwords_and_other_archives() -> None:
    manifest = "<manifest><file-entry><encryption-data/></file-entry></manifest>"
    locked = make_zip({"content.xml": b"\x80\x81", "META-INF/manifest.xml": manifest})
    with pytest.raises(EncryptedSourceError):
        only(locked, "a.odt")
    with pytest.raises(CorruptSourceError, match="no OpenDocument text in it"):
        only(make_zip({"x": "y"}), "a.odt")
