"""From files, bytes and strings to documents, with their structure kept as spans of the text."""

from lagotto.readers.api import read_bytes, read_path, read_text
from lagotto.readers.base import Columns, Reader, ReadOptions, Source
from lagotto.readers.batch import LoadReport, ReadFailure, load
from lagotto.readers.formats import READERS
from lagotto.readers.language import detect_language

__all__ = [
    "READERS",
    "Columns",
    "LoadReport",
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
