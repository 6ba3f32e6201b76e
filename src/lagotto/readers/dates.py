"""Dates as files write them."""

from __future__ import annotations

import re
from datetime import datetime

PDF_DATE = re.compile(r"D?:?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:([+-])(\d\d)'?(\d\d)?|Z)?")


def parse_iso_date(written: str | None) -> datetime | None:
    """An ISO 8601 date or time, or None if it is written in another way."""
    try:
        return datetime.fromisoformat((written or "").strip())
    except ValueError:
        return None


def parse_pdf_date(written: str | None) -> datetime | None:
    """A PDF date such as `D:20240131120000+01'00'`, or None if it is not one."""
    match = PDF_DATE.match(written or "")
    if not match:
        return None
    year, month, day, hour, minute, second, sign, hours, minutes = match.groups()
    zone = f"{sign}{hours}:{minutes or '00'}" if sign else "+00:00"
    day_of_year = f"{year}-{month or '01'}-{day or '01'}"
    return parse_iso_date(f"{day_of_year}T{hour or '00'}:{minute or '00'}:{second or '00'}{zone}")
