"""Readers: turn files, bytes and strings into documents, with their structure as spans of the text.

Public: the functions that read, their options, the Reader protocol and the registry of readers. All
other modules are private.
"""

# ruff: noqa: I001  `X as X` says to type checkers that X is exported; one import per module

from typing import TYPE_CHECKING

from lagotto._internal.registry import exports

if TYPE_CHECKING:
    from lagotto.readers.base import (
        Columns as Columns,
        Reader as Reader,
        ReadFailure as ReadFailure,
        ReadOptions as ReadOptions,
        Source as Source,
    )
    from lagotto.readers.formats import READERS as READERS
    from lagotto.readers.language import detect_language as detect_language
    from lagotto.readers.loader import (
        Loading as Loading,
        check_path as check_path,
        load as load,
        read_bytes as read_bytes,
        read_path as read_path,
        read_text as read_text,
    )
    from lagotto.readers.ocr import Ocr as Ocr, PageImage as PageImage
    from lagotto.readers.process import Limits as Limits
    from lagotto.readers.walk import Skipped as Skipped, SkippedFile as SkippedFile
    from lagotto.readers.web import FetchLimits as FetchLimits

__all__, __getattr__, __dir__ = exports(
    __name__,
    {
        "readers.base": "Columns ReadFailure ReadOptions Reader Source",
        "readers.formats": "READERS",
        "readers.language": "detect_language",
        "readers.loader": "Loading check_path load read_bytes read_path read_text",
        "readers.ocr": "Ocr PageImage",
        "readers.process": "Limits",
        "readers.walk": "Skipped SkippedFile",
        "readers.web": "FetchLimits",
    },
)
