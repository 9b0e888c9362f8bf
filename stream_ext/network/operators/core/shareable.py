"""Shareable: an operator that queries may share, if theirs do the same to the same inputs.

q1   ?a :p ?b FILTER(?b > 5)     q2   ?x :p ?y FILTER(?y > 5)      both filters have one likeness"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stream_ext.rows.zset import ZSet

#: Equal for operators that make the same rows of the same inputs, whatever their variables are called.
Likeness = tuple[object, ...]


class Shareable:
    variables: tuple[str, ...]
    step: Callable[..., ZSet]
    #: Whether its rows may have terms that it creates; whether it looks up constants, at least.
    creates_terms: bool = False
    encodes_terms: bool = False
    #: Whether it remembers nothing of what came before.
    is_stateless: bool = False
    #: Whether a step in which nothing comes does nothing, whatever the time, and gives nothing.
    rests_without_rows: bool = False
    #: Whether each of its rows is valid as long as all that it is made of, or as one of its copies: then over shorter
    #: windows it makes the same rows, which end earlier, and none that it does not make over longer ones.
    is_monotone: bool = False
    #: Whether it may show a row anew when the copy that it is shown with ends: else time alone brings no row.
    shows_again: bool = False
    #: Whether it shows a row of which a later copy comes with that one at once; and may begin so while there are rows
    #: with later copies than the one that they are shown with.
    renews: bool = False
    renews_later: bool = False

    @property
    def likeness(self) -> Likeness | None:
        """None: it is of its query alone."""
        raise NotImplementedError

    def shown(self, time: int) -> Sequence[ZSet]:
        """What it has given and not taken back at `time`, with validities, as far as that does not follow from its
        inputs: of several copies of a row the one counts that came first."""
        return ()

    @property
    def is_renewed(self) -> bool:
        """Whether it has shown each row with its latest copy: then what it has shown follows from what came alone."""
        return True

    def renew(self, renews: bool) -> None:
        """From its next step on it shows each row with its latest copy, or no longer."""

    def shorten(self, by: int) -> None:
        """All that it remembers ends earlier by so much from now on. Only of what is monotone."""

    @property
    def names(self) -> Any:
        """What it calls its columns, and its window."""
        return self.variables

    def rename(self, names: Any) -> None:
        """It gets the names of an operator with the same likeness."""
        self.variables = names
