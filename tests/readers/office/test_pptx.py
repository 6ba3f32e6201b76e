from __future__ import annotations

from tests.readers.office_samples import make_pptx
from tests.readers.samples import only, texts


def test_slides_are_pages_and_sections_with_notes() -> None:
    document = only(make_pptx(), "cats.pptx")
    assert document.text == (
        "Cats\n\nA talk\n\nWhat they do\n\n- eat\n- sleep\n  - deeply\n\nNotes: Speak slowly.\n\n"
        "cat | hours\nTom | 16"
    )
    pages = [document.text[page.start : page.end] for page in document.pages]
    assert [page.partition("\n")[0] for page in pages] == ["Cats", "What they do", "cat | hours"]
    sections = [document.text[item.start : item.end].strip() for item in document.headings]
    assert sections == pages
    assert [item.title for item in document.headings] == ["Cats", "What they do", "Slide 3"]
    assert texts(document, "list") == ["- eat", "- sleep\n  - deeply"]
    assert texts(document, "table") == ["cat | hours", "Tom | 16"]
    assert document.title == "On cats"
    assert document.metadata == {"author": "Ann"}
