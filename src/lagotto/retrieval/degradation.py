"""What did not work in a search, kept for its result; an error where the search is strict."""

from __future__ import annotations

from lagotto.errors import DegradedError


class Degradation:
    """The notes of one search."""

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self._notes: dict[str, None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """What did not work, once each, in order."""
        return tuple(self._notes)

    def note(self, part: str, problem: object, *, cause: BaseException | None = None) -> None:
        """Go on without `part`; DegradedError if that is not allowed."""
        said = f"{part}: {problem}"
        if self._strict:
            raise DegradedError(
                f"{said}; the search is strict, so it ends here (strict=False goes on without)"
            ) from cause
        self._notes[said] = None
