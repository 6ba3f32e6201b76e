from __future__ import annotations

import pytest

from lagotto.base.ingest import Progress
from lagotto.cli.progress import LINE_EVERY, Meter


def test_without_a_terminal_there_is_a_line_every_few_seconds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Meter() as meter:
        for seconds in (0.5, 2.5, 3.0, 4.0, 2.6 + LINE_EVERY):
            meter(
                Progress(
                    seconds=seconds, read=4, reading="/a/b.pdf", found=9, embedded=3, share=0.25
                )
            )
    first, second = capsys.readouterr().err.splitlines()
    assert first == "2 s, 25%: 4 read, 3 of 9 chunks, 1/s; b.pdf"
    assert second.startswith("8 s, 25%")


@pytest.mark.parametrize(
    ("files", "size", "said"),
    [(20, 50_000, "reading 20 files, 0.1 MB\n"), (1, 2_340_000, "reading 1 file, 2.3 MB\n"),
     (19, 999_999, "")],
)  # fmt: skip
def test_much_work_is_announced_at_once(
    files: int, size: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Meter() as meter:
        for _ in range(2):
            meter(Progress(files=files, size=size))
    assert capsys.readouterr().err == said
