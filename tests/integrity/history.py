"""What clients did to a server and what they were told: the record that the checker reads.

Nothing here knows the server. Times are of one monotonic clock, read before a request is sent and after its answer is
there; a client is sequential, so its operations follow each other in time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.stream_ext.scene import Change, Push, Scene, Triple

Bag = Counter[tuple[str, ...]]
Quad = tuple[Triple, str | None]


@dataclass(frozen=True)
class Done:
    """Whose request it was, when it was under way, and the snapshot that its answer named."""

    client: str
    began: int
    ended: int
    sn: int


@dataclass(frozen=True)
class Pushed(Done):
    """An acknowledged push or heartbeat; `absorbed` is what of it the store keeps."""

    push: Push
    absorbed: frozenset[Quad]
    batch: int
    late: int
    evaluated: bool  # whether the answer waited for the evaluations


@dataclass(frozen=True)
class Updated(Done):
    change: Change


@dataclass(frozen=True)
class Registered(Done):
    query: str


@dataclass(frozen=True)
class Read(Done):
    """The whole store, as one answer showed it."""

    quads: frozenset[Quad]


@dataclass(frozen=True)
class AskedAt(Done):
    """A registered query's text, asked once, at a time."""

    query: str
    time: int
    rows: Bag | bool


@dataclass(frozen=True)
class Emission:
    number: int
    sn: int
    time: int
    bounds: tuple[tuple[int, int, str], ...]  # of each window: from, to, how its ends are held
    rows: Bag | bool


@dataclass(frozen=True)
class Listed(Done):
    """All emissions of a query, as one answer had them; `sn` is that answer's."""

    query: str
    emissions: tuple[Emission, ...]


@dataclass
class History:
    """`queries` are the registered ones, by name; `heard` is what a subscriber of each was sent, in its order."""

    queries: dict[str, Scene]
    done: list[Done] = field(default_factory=list)
    received: dict[str, list[Emission]] = field(default_factory=dict)

    def of(self, kind: type[Done]) -> list[Done]:
        return [one for one in self.done if isinstance(one, kind)]
