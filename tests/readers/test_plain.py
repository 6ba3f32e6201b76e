from __future__ import annotations

import pytest

from lagotto.readers import read_text
from tests.readers.samples import PYTHON, only


def test_text_is_kept_as_it_is() -> None:
    document = only("one\r\n\r\n  two\n", "notes/a.txt")
    assert document.text == "one\n\n  two\n"
    assert (document.kind, document.title, document.source) == ("text", "a", "notes/a.txt")


def test_python_classes_and_functions_are_headings() -> None:
    document = only(PYTHON, "cat.py")
    assert [(heading.title, heading.level) for heading in document.headings] == [
        ("Cat", 1),
        ("nap", 2),
        ("feed", 1),
    ]
    nap = document.headings[1]
    assert document.text[nap.start : nap.end] == "    def nap(self) -> None:\n        pass"
    [block] = document.blocks
    assert (block.kind, block.start, block.end) == ("code", 0, len(PYTHON))
    assert document.metadata == {"programming_language": "python"}
    assert (document.title, document.language) == ("cat.py", None)


def test_decorators_and_nested_code_belong_to_the_function() -> None:
    code = "if x:\n    @wraps\n    async def f():\n        def g(): pass\nelse:\n    class C: pass"
    document = only(code, "f.py")
    spans = [(h.title, h.level, document.text[h.start : h.end]) for h in document.headings]
    assert spans == [
        ("f", 1, "    @wraps\n    async def f():\n        def g(): pass"),
        ("g", 2, "        def g(): pass"),
        ("C", 1, "    class C: pass"),
    ]


@pytest.mark.parametrize("code", ["def broken(:\n", "x = (" * 5000, "a\0b", "x = '\\d'\n"])
def test_code_that_cannot_be_parsed_has_no_headings(code: str) -> None:
    assert only(code, "x.py").headings == ()


def test_other_languages_and_code_without_a_name() -> None:
    document = only("fn main() {}\n", "src/main.rs")
    assert (document.kind, document.headings) == ("code", ())
    assert document.metadata == {"programming_language": "rust"}
    [document] = read_text("x = 1", kind="code")
    assert (document.title, document.metadata) == (None, {})
