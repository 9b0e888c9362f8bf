"""Gathering: the pushes of one snapshot, and the positions of their streams after them.

Pushes are added one by one, in the order in which they will be acknowledged, and each is checked before anything is
changed: a rejected push changes nothing. Then all of them are encoded and written at once.

    A stream's time after a push = the greatest of its time before, of (greatest timestamp - lateness), and of
    the heartbeats. It moves at the end of each push, never inside one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec
import numpy as np

from hbase_store import Batch, PushMark, StreamColumns, StreamMove, StreamPosition
from hbase_store.arrays import concatenate
from hbase_store.layout.terms import iri
from stream_ext.catalog.catalog import Catalog, CatalogStep, StreamDefinition
from stream_ext.errors import BadArgument, NotFound
from stream_ext.windows.openings import Openings, opened, openings_of
from stream_ext.writer.elements import Elements, EncodedElements, Ids, Mask, Times, assemble


@dataclass(frozen=True, slots=True)
class Push:
    """The elements of a push, and when it arrived (by the clock, in the order of the queue).

    `heartbeat`: the push also advances the stream's time to this."""

    stream: int
    elements: Elements
    arrived_ms: int
    source: str | None = None
    seq: int | None = None
    heartbeat: int | None = None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Advances a stream to `time`; `by_clock`: as an arrival at that time does, so less the lateness. `silent`: of a
    stream of emissions, the evaluation that emitted nothing (`StreamPosition`)."""

    stream: int
    time: int
    by_clock: bool = False
    silent: bytes = b""


@dataclass(frozen=True, slots=True)
class Idle:
    """Marks a stream as idle, because of its option `idle`; only if its position is still the one that was `seen`."""

    stream: int
    seen: StreamPosition | None


Request = Push | Heartbeat | Idle


@dataclass(frozen=True, slots=True)
class Accepted:
    """An accepted push, heartbeat or mark of idleness: its times, and the position of its stream after it."""

    stream: int
    element_times: Times
    latest: int | None
    heartbeat: int | None
    idle: bool = False
    elements: Elements | None = None
    ordinal: int = 0

    @property
    def triples(self) -> int:
        return 0 if self.elements is None else len(self.elements.element)

    @property
    def element_sizes(self) -> Times:
        """The number of triples of each element."""
        if self.elements is None:
            return np.zeros(len(self.element_times), np.int64)
        return np.bincount(self.elements.element, minlength=len(self.element_times)).astype(np.int64)


REPEATED = Accepted(0, np.empty(0, np.int64), None, None)
_NO_TIMES = np.empty(0, np.int64)


@dataclass(slots=True)
class _Moving:
    """A stream of this snapshot: its position after what was accepted so far."""

    definition: StreamDefinition
    batch: int
    time: int | None
    heartbeat: int | None
    first: int | None
    latest: int | None
    openings: Openings
    sources: dict[str, int]
    elements_total: int = 0
    triples_total: int = 0
    idle: bool = False
    decided: bool = False  # its `runs_by` was decided in this snapshot
    marks: list[PushMark] = field(default_factory=list)
    accepted: list[Accepted] = field(default_factory=list)
    sources_moved: dict[str, int] = field(default_factory=dict)
    silent: bytes = b""

    def arrives(self, time: int) -> None:
        self.latest = time if self.latest is None else max(self.latest, time)
        self.moves_to(time - self.definition.options.lateness_ms)

    def beats(self, time: int) -> None:
        self.heartbeat = time if self.heartbeat is None else max(self.heartbeat, time)
        self.moves_to(time)

    def moves_to(self, time: int) -> None:
        self.time = time if self.time is None else max(self.time, time)


class Gathering:
    """The pushes of one snapshot."""

    def __init__(self, catalog: Catalog, positions: Mapping[int, StreamPosition]) -> None:
        self._catalog = catalog
        self._positions = positions
        self._moving: dict[int, _Moving] = {}
        self._ordinals = 0
        #: Elements by stream that are not stored: no window reads them, no retention, and nothing of them is absorbed.
        self.dropped: Counter[int] = Counter()

    def __bool__(self) -> bool:
        return bool(self._moving)

    def push(self, push: Push) -> Accepted:
        """Adds a push, or raises and changes nothing. `REPEATED`: its source has sent it before."""
        moving = self._at(push.stream)
        if _is_repeated(moving, push):
            return REPEATED
        self._decide(moving, push.elements)
        if push.source is not None and push.seq is not None:
            moving.sources_moved.pop(push.source, None)  # in the order of the last pushes
            moving.sources[push.source] = moving.sources_moved[push.source] = push.seq
        times = push.elements.time
        if push.elements.timed is False:
            times = np.full(len(times), push.arrived_ms, np.int64)
        if len(times):
            least = int(times.min())
            moving.first = least if moving.first is None else min(moving.first, least)
            moving.openings = opened(moving.openings, times, moving.latest, moving.heartbeat)
            moving.arrives(int(times.max()))
            moving.elements_total += len(times)
            moving.triples_total += len(push.elements.element)
        if push.heartbeat is not None:
            moving.beats(push.heartbeat)
        moving.idle, moving.silent = False, b""
        return self._mark(moving, times, push.elements)

    def heartbeat(self, heartbeat: Heartbeat) -> Accepted:
        moving = self._at(heartbeat.stream)
        if heartbeat.by_clock:
            moving.arrives(heartbeat.time)
        else:
            moving.beats(heartbeat.time)
            moving.idle = False
        moving.silent = heartbeat.silent or moving.silent
        return self._mark(moving, _NO_TIMES, None)

    def idle(self, idle: Idle) -> Accepted:
        """`REPEATED`: the stream got something meanwhile."""
        if idle.stream in self._moving or self._positions.get(idle.stream) != idle.seen:
            return REPEATED
        moving = self._at(idle.stream)
        moving.idle = True
        return self._mark(moving, _NO_TIMES, None)

    def _at(self, stream: int) -> _Moving:
        """The position of a stream; the stream counts as moving only once something of it was accepted."""
        if (moving := self._moving.get(stream)) is not None:
            return moving
        definition = self._catalog.streams.get(stream)
        if definition is None:
            raise NotFound("the stream was dropped before this push was written")
        position = self._positions.get(stream)
        if position is None:
            return _Moving(definition, 0, None, None, None, None, [], {})
        return _Moving(
            definition, position.batch, position.time, position.heartbeat, position.first, position.latest,
            openings_of(position.openings, position.first), dict(position.sources), position.elements_total,
            position.triples_total, position.idle, silent=position.silent,
        )  # fmt: skip

    @staticmethod
    def _decide(moving: _Moving, elements: Elements) -> None:
        timed, definition = elements.timed, moving.definition
        if timed is None:
            return
        if definition.runs_by is None:
            runs_by: Literal["elements", "clock"] = "elements" if timed else "clock"
            moving.definition = msgspec.structs.replace(definition, runs_by=runs_by, created_by=None)
            moving.decided = True
        elif timed != (definition.runs_by == "elements"):
            raise BadArgument(_WRONG_KIND[definition.runs_by].format(definition.name))

    def _mark(self, moving: _Moving, times: Times, elements: Elements | None) -> Accepted:
        position = (moving.latest, moving.heartbeat, moving.idle)
        accepted = Accepted(moving.definition.number, times, *position, elements, self._ordinals)
        self._moving[accepted.stream] = moving
        moving.marks.append(PushMark(self._ordinals, moving.time, *position))
        moving.accepted.append(accepted)
        self._ordinals += 1
        return accepted

    def steps(self) -> list[CatalogStep]:
        """Streams whose first push decided their `runs_by`."""
        return [CatalogStep("stream", n, m.definition) for n, m in self._moving.items() if m.decided]

    def moves(self) -> list[StreamMove]:
        return [
            StreamMove(
                stream=number,
                batch=_batch_after(moving),
                time=moving.time,
                heartbeat=moving.heartbeat,
                first=moving.first,
                pushes=moving.marks,
                sources=moving.sources_moved,
                latest=moving.latest,
                idle=moving.idle,
                openings=self._moved_openings(moving),
                elements_total=moving.elements_total,
                triples_total=moving.triples_total,
                silent=moving.silent,
            )
            for number, moving in self._moving.items()
        ]

    def _moved_openings(self, moving: _Moving) -> list[tuple[int, int]] | None:
        position = self._positions.get(moving.definition.number)
        before = [] if position is None else position.openings
        return None if list(moving.openings) == before else list(moving.openings)

    def write(self, batch: Batch) -> None:
        self.dropped.clear()  # `write` is repeated if the store did not answer in the middle
        for move in self.moves():
            moving = self._moving[move.stream]
            if self._is_wanted(moving.definition):
                batch.stream(move, *_columns(batch, moving, wanted=True))
            else:
                batch.stream(move, *self._absorbed_only(batch, moving))

    def _is_wanted(self, stream: StreamDefinition) -> bool:
        """Whether a query or the stream's retention needs the elements that the store does not absorb."""
        return stream.options.retention_ms > 0 or bool(self._catalog.readers_of(stream.number))

    def _absorbed_only(self, batch: Batch, moving: _Moving) -> tuple[StreamColumns | None, Mask | None]:
        elements = sum(len(one.element_times) for one in moving.accepted)
        columns, absorbed = _columns(batch, moving, wanted=False) if _absorbs(moving) else (None, None)
        if columns is not None and absorbed is not None:
            columns, absorbed = _with_rows(columns, absorbed), np.ones(int(absorbed.sum()), np.bool_)
        self.dropped[moving.definition.number] += elements - (0 if columns is None else len(columns.time))
        return columns, absorbed


_WRONG_KIND = {
    "clock": (
        "stream {!r} takes its times from the clock, because its first push had no times; send this push "
        "without times too, or use another stream"
    ),
    "elements": (
        "stream {!r} takes its times from its elements, because its first push had times; "
        'give this push times too (?timestamp=, rillet push --timestamp, or "timestamp" in each line), '
        "or use another stream"
    ),
}


def _is_repeated(moving: _Moving, push: Push) -> bool:
    last = None if push.source is None else moving.sources.get(push.source)
    return last is not None and push.seq is not None and push.seq <= last


def _batch_after(moving: _Moving) -> int:
    """The number of the stream's batch. Only batches with elements are numbered; a heartbeat is none."""
    return moving.batch + any(accepted.elements is not None for accepted in moving.accepted)


def _columns(batch: Batch, moving: _Moving, wanted: bool) -> tuple[StreamColumns | None, Mask | None]:
    """All elements of the stream in this snapshot, and which triples are absorbed (None: none). Where the others are
    not `wanted`, their terms may be 0."""
    accepted = [one for one in moving.accepted if one.elements is not None and len(one.element_times)]
    if not accepted:
        return None, None
    everything = [one.elements for one in accepted if one.elements is not None]
    option = moving.definition.options.graph
    default_graph = 0 if option is None else int(batch.encode([iri(option)])[0])
    parts = [
        assemble(elements, ids, _blanks(batch, len(elements.places.keys)), default_graph)
        for elements, ids in zip(everything, _encode(batch, everything, wanted), strict=True)
    ]
    starts = np.cumsum([0, *(len(one.element_times) for one in accepted)])[:-1]
    columns = StreamColumns(
        stream=moving.definition.number,
        time=np.concatenate([one.element_times for one in accepted]),
        graph=concatenate([part.graph for part in parts]),
        push=np.concatenate([np.full(len(one.element_times), one.ordinal, np.int32) for one in accepted]),
        element=np.concatenate(
            [elements.element + np.int32(start) for elements, start in zip(everything, starts, strict=True)]
        ),
        s=concatenate([part.s for part in parts]),
        p=concatenate([part.p for part in parts]),
        o=concatenate([part.o for part in parts]),
        g=_graphs(everything, parts),
    )
    return columns, _absorbed(everything)


def _graphs(everything: Sequence[Elements], parts: Sequence[EncodedElements]) -> Ids | None:
    """The graph of each triple, if an element has triples in several graphs."""
    if all(part.g is None for part in parts):
        return None
    return np.concatenate(
        [
            part.graph[elements.element] if part.g is None else part.g
            for elements, part in zip(everything, parts, strict=True)
        ]
    )


def _absorbs(moving: _Moving) -> bool:
    """Whether the store absorbs some of the triples."""
    parts = [one.elements.absorbed for one in moving.accepted if one.elements is not None]
    return any(absorbed is not None and bool(absorbed.any()) for absorbed in parts)


def _with_rows(columns: StreamColumns, rows: Mask) -> StreamColumns:
    """Only these triples, and the elements that contain them."""
    elements = np.unique(columns.element[rows])
    return StreamColumns(
        columns.stream,
        columns.time[elements],
        columns.graph[elements],
        columns.push[elements],
        np.searchsorted(elements, columns.element[rows]).astype(np.int32),
        columns.s[rows],
        columns.p[rows],
        columns.o[rows],
        None if columns.g is None else columns.g[rows],
    )


def _blanks(batch: Batch, count: int) -> Ids:
    return batch.blanks(count) if count else np.empty(0, np.uint64)


def _encode(batch: Batch, everything: Sequence[Elements], wanted: bool) -> list[Ids]:
    """Each push's ids of its terms, 0 for fresh blank nodes: a call for what the store absorbs, one for the rest."""
    texts = [term for elements in everything for term in elements.parsed.terms]
    named = ~np.concatenate([elements.places.blank for elements in everything])
    absorbed = np.concatenate([_absorbed_terms(elements) for elements in everything])
    ids = np.zeros(len(texts), np.uint64)
    for those, encode in ((named & absorbed, batch.encode), (named & ~absorbed & wanted, batch.encode_transient)):
        if those.all():
            ids = encode(texts)
        elif those.any():
            ids[those] = encode([texts[i] for i in np.flatnonzero(those).tolist()])
    if len(everything) == 1:
        return [ids]
    ends = np.cumsum([len(elements.parsed.terms) for elements in everything])
    return np.split(ids, ends[:-1])


def _absorbed_terms(elements: Elements) -> Mask:
    """Which of the terms occur in triples that the store absorbs, or are the graphs of such triples."""
    parsed, absorbed = elements.parsed, elements.absorbed
    found = np.zeros(len(parsed.terms), np.bool_)
    if absorbed is not None:
        for column in (parsed.s, parsed.p, parsed.o):
            found[column[absorbed]] = True
        graphs = parsed.g[absorbed]
        found[graphs[graphs >= 0]] = True
    return found


def _absorbed(everything: Sequence[Elements]) -> Mask | None:
    if all(elements.absorbed is None for elements in everything):
        return None
    return np.concatenate(
        [
            np.zeros(len(elements.element), np.bool_) if elements.absorbed is None else elements.absorbed
            for elements in everything
        ]
    )
