"""From files, bytes and strings to documents, with their structure kept as spans of the text."""

from lagotto.readers.base import Columns, Reader, ReadOptions, Source
from lagotto.readers.formats import READERS
from lagotto.readers.language import detect_language
from lagotto.readers.load import ReadFailure, load, read_bytes, read_path, read_text

__all__ = [
    "READERS",
    "Columns",
    "ReadFailure",
    "ReadOptions",
    "Reader",
    "Source",
    "detect_language",
    "load",
    "read_bytes",
    "read_path",
    "read_text",
]
