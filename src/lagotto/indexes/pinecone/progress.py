"""How far an index in the service has come: written beside its documents, after them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from lagotto.indexes.base import START, LogPosition

MOST_MARKS = 8
"""Marks that are kept: while documents are added without a pause, one of them has been reached."""


@dataclass(frozen=True, slots=True)
class WriteMark:
    """A position of the change log, and the writes that a search must reflect to have reached it.

    `writes` has, for each namespace, the service's number of the last write up to this position.
    """

    number: int
    token: int
    writes: Mapping[str, int]

    @property
    def position(self) -> LogPosition:
        """The position."""
        return LogPosition(self.number, self.token)

    def reached_by(self, seen: Mapping[str, int]) -> bool:
        """Whether searches that had reached the numbers `seen` have all writes of this mark."""
        return all(seen.get(name, 0) >= number for name, number in self.writes.items())


NOTHING = WriteMark(*START, writes={})


@dataclass(frozen=True, slots=True)
class PineconeProgress:
    """The state of an index, as one document of the service has it.

    `epoch` is part of the names of its namespaces: an index that is built anew gets other ones, and
    `former` are the epochs before it, whose namespaces are to be deleted. Documents of chunks whose
    removal is at most at `deleted` have been deleted. `crowded` says that some document has more
    metadata than the service takes, and so none. `version` counts writes of this document: the
    service may answer with an earlier one.
    """

    version: int = 0
    epoch: str = ""
    marks: tuple[WriteMark, ...] = ()
    deleted: int = 0
    crowded: bool = False
    former: tuple[str, ...] = ()

    @property
    def last(self) -> WriteMark:
        """The last position whose changes have all been written."""
        return self.marks[-1] if self.marks else NOTHING

    def reached(self, seen: Mapping[str, int]) -> tuple[WriteMark, ...]:
        """The marks that searches have reached, NOTHING first."""
        return (NOTHING, *(mark for mark in self.marks if mark.reached_by(seen)))

    def marked(self, mark: WriteMark, *, crowded: bool) -> PineconeProgress:
        """After the changes up to a mark have been written."""
        marks = (*self.marks, mark)[-MOST_MARKS:]
        return replace(self, marks=marks, crowded=self.crowded or crowded)

    def anew(self, epoch: str) -> PineconeProgress:
        """An empty index under other names."""
        former = (*self.former, self.epoch) if self.epoch else self.former
        return PineconeProgress(version=self.version, epoch=epoch, former=former)

    def to_json(self) -> str:
        """As text, for `from_json`."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> PineconeProgress:
        """The progress that `to_json` has written."""
        values = json.loads(text)
        marks = tuple(WriteMark(**mark) for mark in values.pop("marks"))
        return cls(**{**values, "marks": marks, "former": tuple(values["former"])})
