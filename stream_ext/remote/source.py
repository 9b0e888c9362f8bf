"""A source: a SPARQL store that is not ours, whose data are one dataset with our own.

    rillet serve --attach http://127.0.0.1:3030/ds/sparql

Whoever evaluates asks it as a `Source`: a store behind HTTP, or an rdflib dataset in this process. A source only reads
through `select`; what it means by its answers (`SourceTraits`) was probed when it was attached, or declared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from stream_ext.evaluation_budget import Control
from stream_ext.remote.shown_urls import shown_url
from stream_ext.remote.sparql_client import Solution

#: The source whose data are one dataset with our own; others are reached by SERVICE only.
MAIN = "main"

DefaultGraph = Literal["own", "union", "empty"]
Mode = Literal["auto", "hold", "ask"]


@dataclass(frozen=True, slots=True)
class SourceTraits:
    """What a source is, as far as its answers depend on it.

    `default`: its default graph has triples of its own, is the union of its named graphs, or is always empty.
    `repeats`: a pattern may find the same triple twice. `canonical_numbers`: `01` becomes `1`. `widens_integers`:
    xsd:int and its like become xsd:integer. `lowers_languages`: `@EN` becomes `@en`. `sorts_by_text`: STR() compares by
    code points, so that answers can be cut into pages.
    `stable_blanks`: a blank node has the same label in each answer. `by_value`: it has no truth values of its own, and
    takes a number, a time, true or false in a pattern for whatever has an equal value. `distinguishes_zeros`: -0.0 is
    less than 0."""

    default: DefaultGraph = "own"
    repeats: bool = False
    canonical_numbers: bool = False
    widens_integers: bool = False
    lowers_languages: bool = False
    sorts_by_text: bool = False
    stable_blanks: bool = False
    by_value: bool = False
    distinguishes_zeros: bool = False

    @property
    def description(self) -> str:
        """For the log, in words."""
        graphs = {"own": "has triples of its own", "union": "is the union of the named graphs", "empty": "is empty"}
        return "; ".join([f"its default graph {graphs[self.default]}", *self.differs])

    @property
    def differs(self) -> list[str]:
        """What cannot be made equal to the answers of our own store, one sentence each."""
        found = []
        if self.canonical_numbers:
            found.append('it writes numbers in canonical form: "01"^^xsd:integer is found as 1')
        if self.widens_integers:
            found.append("it writes xsd:int, and other types derived from xsd:integer, as xsd:integer")
        if self.lowers_languages:
            found.append("it changes the case of language tags")
        if self.by_value:
            found.append("where it joins literals of its own, numbers, times and truth values are joined by value")
        return found


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """A source as it is named when the server starts. The secret is never shown or logged."""

    name: str
    url: str
    update_url: str | None = None
    authorization: str | None = None  # `user:password`, `Digest user:password` or `Bearer TOKEN`
    refresh_s: float = 60.0
    full_s: float = 3600.0
    mode: Mode = "auto"
    changed: str | None = None  # the predicate whose object says when its subject changed
    held_max: int = 5_000_000  # a group that matches more quads is asked, not held
    default: DefaultGraph | None = None  # what its default graph is; None: it is probed

    @property
    def shown_url(self) -> str:
        """Without a password, a key or a token, which an address may have."""
        return shown_url(self.url)

    def __repr__(self) -> str:
        return f"SourceSettings({self.name!r}, {self.shown_url!r})"


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """How a source answered lately. `probed`: what it is was found out; `error`: its last failure, if it has not
    answered since; `round_trips`: how often it was asked."""

    probed: bool = True
    error: str | None = None
    round_trips: int = 0

    @property
    def state(self) -> str:
        return "away" if self.error is not None else "ready" if self.probed else "new"


class Source(Protocol):
    """What evaluation needs of a source. Every call may raise NoAnswer (try later) or CannotFetch (it is no answer)."""

    @property
    def settings(self) -> SourceSettings: ...

    @property
    def traits(self) -> SourceTraits: ...

    @property
    def local(self) -> bool:
        """Whether it lives in this process, so that no other process can ask it."""
        ...

    @property
    def health(self) -> SourceHealth: ...

    def select(self, text: str, control: Control) -> Iterator[list[Solution]]:
        """The solutions of a SELECT, some at a time, while they come. An answer that breaks off raises."""
        ...

    def update(self, text: str) -> None:
        """One request of DATA operations, never repeated by itself. BadArgument if the source takes no updates."""
        ...

    def close(self) -> None: ...
