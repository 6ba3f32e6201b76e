"""Readers: turn files, bytes and strings into documents, with their structure as spans of the text.

Public: the functions that read, their options, the Reader protocol and the registry of readers. All
other modules are private.
"""

from typing import TYPE_CHECKING

from lagotto._internal.registry import lazy_exports

if TYPE_CHECKING:
    from lagotto.readers.base import Columns, Reader, ReadFailure, ReadOptions, Source
    from lagotto.readers.formats import READERS
    from lagotto.readers.language import detect_language
    from lagotto.readers.loader import Loading, check_path, load, read_bytes, read_path, read_text
    from lagotto.readers.ocr import Ocr, PageImage
    from lagotto.readers.process import Limits
    from lagotto.readers.walk import Skipped, SkippedFile
    from lagotto.readers.web import FetchLimits

__all__ = [
    "READERS",
    "Columns",
    "FetchLimits",
    "Limits",
    "Loading",
    "Ocr",
    "PageImage",
    "ReadFailure",
    "ReadOptions",
    "Reader",
    "Skipped",
    "SkippedFile",
    "Source",
    "check_path",
    "detect_language",
    "load",
    "read_bytes",
    "read_path",
    "read_text",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "base": (
            "Columns",
            "ReadFailure",
            "ReadOptions",
            "Reader",
            "Source",
        ),
        "formats": ("READERS",),
        "language": ("detect_language",),
        "loader": (
            "Loading",
            "check_path",
            "load",
            "read_bytes",
            "read_path",
            "read_text",
        ),
        "ocr": (
            "Ocr",
            "PageImage",
        ),
        "process": ("Limits",),
        "walk": (
            "Skipped",
            "SkippedFile",
        ),
        "web": ("FetchLimits",),
    },
)
