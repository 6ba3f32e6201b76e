from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lagotto.errors import EncryptedSourceError
from tests.readers.office_samples import make_epub
from tests.readers.samples import only, texts


def test_chapters_in_the_order_of_the_spine_and_properties() -> None:
    document = only(make_epub(), "cats.epub")
    assert document.text == (
        "Cats\n\nCats sleep a lot.\n\nFacts\n\ncat | hours\nTom | 16\n\n- eat\n- sleep"
    )
    assert [item.title for item in document.headings] == ["Cats", "Facts"]
    assert texts(document, "table") == ["cat | hours", "Tom | 16"]
    assert (document.title, document.language) == ("On cats", "en")
    assert document.metadata == {"author": "Ann"}
    assert document.created_at == datetime(2024, 5, 6, tzinfo=UTC)


def test_a_chapter_without_a_heading_belongs_to_the_one_before() -> None:
    document = only(make_epub(("<h1>One</h1><p>a</p>", "<p>b</p>")), "a.epub")
    [heading] = document.headings
    assert document.text[heading.start : heading.end] == "One\n\na\n\nb"


@pytest.mark.parametrize(
    ("algorithm", "locked"),
    [
        ("http://www.w3.org/2001/04/xmlenc#aes128-cbc", True),
        ("http://www.idpf.org/2008/embedding", False),
    ],
)
def test_copy_protection_is_told_from_hidden_fonts(algorithm: str, locked: bool) -> None:
    method = f'<EncryptionMethod Algorithm="{algorithm}"/>'
    xml = f"<encryption><EncryptedData>{method}</EncryptedData></encryption>"
    data = make_epub(extra={"META-INF/encryption.xml": xml})
    if locked:
        with pytest.raises(EncryptedSourceError):
            only(data, "a.epub")
    else:
        assert only(data, "a.epub").text
