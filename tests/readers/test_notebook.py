from __future__ import annotations

import json

import pytest

from lagotto.errors import CorruptSourceError, EmptySourceError
from tests.readers.samples import NOTEBOOK, only, texts


def test_cells_in_order_without_outputs_and_structure() -> None:
    document = only(json.dumps(NOTEBOOK), "cats.ipynb")
    assert document.text == (
        "# Cats\n\nCats sleep a lot.\n\nimport cats\n\ncats.nap()\n\n"
        "## Facts\n\n- eat\n- sleep\n\nraw"
    )
    assert "purr" not in document.text
    assert [(item.title, item.level) for item in document.headings] == [("Cats", 1), ("Facts", 2)]
    assert document.text[document.headings[1].start :].startswith("## Facts")
    assert texts(document, "code") == ["import cats\n\ncats.nap()"]
    assert texts(document, "list") == ["- eat", "- sleep"]
    assert document.title == "Cats"
    assert document.metadata == {"programming_language": "python"}


def test_notebooks_of_version_3() -> None:
    cells = [
        {"cell_type": "heading", "level": 2, "source": ["Cats"]},
        {"cell_type": "code", "input": ["nap()"], "outputs": []},
    ]
    document = only(json.dumps({"worksheets": [{"cells": cells}]}), "old.ipynb")
    assert document.text == "Cats\n\nnap()"
    assert [(item.title, item.level) for item in document.headings] == [("Cats", 2)]


NONE = ["[]", "{", "[" * 100_000, '"cells"']
EMPTY = ["{}", '{"cells": [1, {"source": {}}]}', '{"cells": 7}', '{"cells": []}']


@pytest.mark.parametrize("text", [*NONE, *EMPTY])
def test_not_a_notebook_or_nothing_in_it(text: str) -> None:
    with pytest.raises(CorruptSourceError if text in NONE else EmptySourceError):
        only(text, "a.ipynb")
