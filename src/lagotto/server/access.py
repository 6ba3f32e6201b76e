"""What a caller may do and see: the scopes of its key, its collections and its filter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from lagotto.filters import And, Filter, In
from lagotto.server.problems import Problem

Scope = Literal["read", "write", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "write", "admin")


@dataclass(frozen=True, slots=True)
class Sight:
    """The part of a base that a caller sees.

    It is a type of its own, and not a Filter, so that a filter of a request can't take its place:
    `where` is the only way to a filter, and it can only narrow.
    """

    collections: tuple[str, ...] | None = None
    condition: Filter = field(default_factory=And)

    @property
    def everything(self) -> bool:
        """Whether nothing is hidden."""
        return self.collections is None and self.condition == And()

    def where(self, asked: Filter | None = None) -> Filter:
        """What the caller asks for, of what it sees."""
        parts: list[Filter] = []
        if self.collections is not None:
            parts.append(In("collection", self.collections))
        parts += [part for part in (self.condition, asked or And()) if part != And()]
        return parts[0] if len(parts) == 1 else And(*parts)


@dataclass(frozen=True, slots=True)
class Access:
    """A caller: the id of its key (None without keys), its scopes and its sight."""

    key_id: str | None = None
    scopes: tuple[Scope, ...] = SCOPES
    sight: Sight = Sight()

    def check(self, scope: Scope) -> None:
        """Raise a problem unless the scope is among those of the key."""
        if scope not in self.scopes:
            raise Problem(
                "Forbidden",
                f"this needs a key with the scope {scope}; this one has {', '.join(self.scopes)}",
            )

    @property
    def is_admin(self) -> bool:
        """Whether it may see the work of other keys."""
        return "admin" in self.scopes and self.sight.everything
