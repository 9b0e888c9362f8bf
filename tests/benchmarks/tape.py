"""A tape: what some streams will say, as numbers of texts, cut into batches; to be played into a store.

What there is of a stream is soon played. So it is played in rounds, each of which has other posts, photos and places
than the one before, as a stream has that goes on; users, channels and tags stay. Played `densely`, each second of the
streams' time has as many triples as a batch is to have; `as_recorded` it is played by the times that it has."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.benchmarks.lsbench import folder as shared_folder
from tests.benchmarks.network_life import STREAMS, Life, Line

Longs = npt.NDArray[np.int64]

_FILES = dict(zip(STREAMS, ("post_1k", "postlike_1k", "photo_1k", "photolike_1k", "gps_1k_first60k"), strict=True))
_OF_A_ROUND = re.compile(rb"<http://www\.ins\.cwi\.nl/sib/(?:post|photoalbum|gps)/")
START_MS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Source:
    """Where the data comes from: LSBench's, where it is at hand, or our own."""

    name: str
    stored: list[bytes]
    streams: Mapping[str, list[Line]]


def source(posts: int, shared: bool | None = None) -> Source:
    """`posts`: so many at most, and of the others what came in the same time."""
    if shared is None:
        shared = (shared_folder() / "static_1k.nt.gz").is_file()
    if shared:
        with gzip.open(shared_folder() / "static_1k.nt.gz", "rb") as lines:
            stored = [line.rstrip(b" .\n") for line in lines]
        streams = {name: list(_recorded(shared_folder() / f"{_FILES[name]}.tnt.gz")) for name in STREAMS}
    else:
        life = Life()
        stored, streams = list(life.stored()), life.streams(posts)
    return Source("lsbench" if shared else "own", stored, streams)


def _recorded(file: Path) -> Iterator[Line]:
    with gzip.open(file, "rb") as lines:
        for line in lines:
            time, _, triple = line.rstrip(b" .\n").partition(b"\t")
            yield int(time), triple


@dataclass(frozen=True, slots=True)
class Batch:
    """Of one snapshot: triples of some streams by the places of their texts, and the time that all streams come to."""

    stream: Longs  # of each triple, its place in `Tape.streams`
    time: Longs
    element: Longs  # ascends; triples of one element have one number
    triples: Longs  # three lines
    reached: int


class Tape:
    def __init__(self, source: Source, streams: Sequence[str]) -> None:
        self.streams = tuple(streams)
        places: dict[bytes, int] = {}
        found = [
            (time, stream, *(places.setdefault(text, len(places)) for text in line.split(b" ", 2)))
            for stream, name in enumerate(streams)
            for time, line in source.streams[name]
        ]
        table = np.array(found, np.int64)
        table = table[np.lexsort((table[:, 1], table[:, 0]))]  # stable: in the order of time, then of stream
        self._time, self._stream, self._triples = table[:, 0], table[:, 1], table[:, 2:]
        new = (table[1:, :2] != table[:-1, :2]).any(axis=1)
        self._element = np.concatenate(([0], np.cumsum(new)))
        self.texts = list(places)

    def __len__(self) -> int:
        return len(self._time)

    def as_recorded(self, triples: int) -> list[Batch]:
        """All of it once, in batches of about so many triples."""
        return self._cut(self._element, self._stream, self._time, self._triples, self._position(0) // triples, 0)

    def dense(self, triples: int, batches: int, step_ms: int) -> list[Batch]:
        """So many batches, a step each; rounds beyond the first add texts of their own."""
        rounds = range(-(-batches * triples // len(self)))
        parts = [self._round(round) for round in rounds]
        position = np.concatenate([self._position(round) for round in rounds])
        which = position < batches * triples
        element = np.concatenate([self._element + round * (self._element[-1] + 1) for round in rounds])[which]
        stream = np.tile(self._stream, len(rounds))[which]
        time = START_MS + position[which] * step_ms // triples
        return self._cut(element, stream, time, np.concatenate(parts)[which], position[which] // triples, step_ms)

    def _position(self, round: int) -> Longs:
        """How many triples came before the element of each triple."""
        begins = np.flatnonzero(np.diff(self._element, prepend=-1))
        found: Longs = begins[self._element] + round * len(self)
        return found

    def _round(self, round: int) -> Longs:
        if not round:
            return self._triples
        places, suffix = np.arange(len(self.texts)), b"r%d>" % round
        for place, text in enumerate(self.texts[: int(self._triples.max()) + 1]):
            if _OF_A_ROUND.match(text):
                places[place] = len(self.texts)
                self.texts.append(text[:-1] + suffix)
        found: Longs = places[self._triples]
        return found

    @staticmethod
    def _cut(element: Longs, stream: Longs, time: Longs, triples: Longs, number: Longs, step_ms: int) -> list[Batch]:
        """`step_ms`: each batch ends where a step of this length does; 0: at the last time it has."""
        ends = np.flatnonzero(np.diff(number, append=number[-1] + 1)) + 1
        batches = []
        for start, stop in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
            part = slice(start, stop)
            reached = START_MS + (int(number[start]) + 1) * step_ms if step_ms else int(time[stop - 1])
            batches.append(Batch(stream[part], time[part], element[part], triples[part].T, reached))
        return batches
