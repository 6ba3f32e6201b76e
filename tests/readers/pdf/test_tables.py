from __future__ import annotations

import pytest

from lagotto.readers.pdf import tables


def test_tables_are_lines_that_end_in_numbers() -> None:
    text = (
        "The results are as follows.\n(in millions) 2022 2021\nAssets:\nCash $ 1,200 $ (900)\n"
        "Goodwill and other\nintangible assets 55 -\nTotal 1,255 12.5%\nWe sold 3 in 2021 and 4.\n"
    )
    (table,) = tables(text)
    assert [text[part.start : part.end] for part in table.parts] == [
        "(in millions) 2022 2021",
        "Assets:\nCash $ 1,200 $ (900)",
        "Goodwill and other\nintangible assets 55 -",
        "Total 1,255 12.5%",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "In 2021 we sold 3 of 4.\nIn 2022 we sold 12.\nIn 2023 none.",
        "a 1 2\nb 3 4",
        "- -\n- -\n- -",
    ],
)
def test_no_tables(text: str) -> None:
    assert list(tables(text)) == []
