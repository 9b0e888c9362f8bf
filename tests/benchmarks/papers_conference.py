"""Experiment 3 of CQELS (2011): many queries over people with badges at a conference, and what they have written."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from tests.benchmarks.papers_replay import EX, Figures, Measures, compared, measured, rows_of
from tests.benchmarks.replay import Replay
from tests.benchmarks.tape import Source, Tape

_AUTHOR = '?auth <{e}name> "name {n}"'
_QUERIES = {
    "Q1": (
        "SELECT ?loc ?d", "STREAM <http://deri.org/rfid> [NOW] {{ ?auth <{e}at> ?loc }} ?loc <{e}desc> ?d . " + _AUTHOR,
    ),
    "Q3": (
        "SELECT ?name",
        "STREAM <http://deri.org/rfid> [TRIPLES 1] {{ ?auth <{e}at> ?loc }} "
        "STREAM <http://deri.org/rfid> [RANGE 5s] {{ ?co <{e}at> ?loc }} "
        "?paper <{e}creator> ?auth . ?paper <{e}creator> ?co . ?co <{e}name> ?name . "
        + _AUTHOR + " FILTER(?auth != ?co)",
    ),
    "Q4": (
        "SELECT ?name",
        "STREAM <http://deri.org/rfid> [TRIPLES 1] {{ ?auth <{e}at> ?loc1 }} "
        "STREAM <http://deri.org/rfid> [RANGE 15s] {{ ?ed <{e}at> ?loc2 }} ?loc1 <{e}connected> ?loc2 . "
        "?paper <{e}creator> ?auth . ?paper <{e}partOf> ?book . ?book <{e}editor> ?ed . ?ed <{e}name> ?name . "
        + _AUTHOR,
    ),
}  # fmt: skip
_PLACES, _BOOKS, _BADGES = 30, 200, 200
_STEP_MS = 100


@dataclass(frozen=True, slots=True)
class Conference:
    """Papers of three authors in books with an editor each; badges at 30 places, ten a second."""

    people: int
    authors: list[list[int]]  # of each paper
    editors: list[int]  # of each book
    moves: list[tuple[int, int]]  # who, where

    @classmethod
    def of(cls, people: int, papers: int, moves: int) -> Conference:
        chance = np.random.default_rng(11)
        authors = [chance.choice(people, 3, replace=False).tolist() for _ in range(papers)]
        editors = chance.integers(0, min(people, 2 * _BADGES), _BOOKS).tolist()  # half of them carry badges
        badges, places = chance.integers(0, _BADGES, moves).tolist(), chance.integers(0, _PLACES, moves).tolist()
        return cls(people, authors, editors, list(zip(badges, places, strict=True)))

    def source(self) -> Source:
        stored = [f'<{EX}a{n}> <{EX}name> "name {n}"' for n in range(self.people)]
        for paper, authors in enumerate(self.authors):
            stored += [f"<{EX}p{paper}> <{EX}creator> <{EX}a{n}>" for n in authors]
            stored.append(f"<{EX}p{paper}> <{EX}partOf> <{EX}b{paper % _BOOKS}>")
        stored += [f"<{EX}b{book}> <{EX}editor> <{EX}a{who}>" for book, who in enumerate(self.editors)]
        stored += [f'<{EX}l{place}> <{EX}desc> "place {place}"' for place in range(_PLACES)]
        stored += [f"<{EX}l{one}> <{EX}connected> <{EX}l{other}>" for one in range(_PLACES) for other in _near(one)]
        lines = [
            (_STEP_MS * n, f"<{EX}a{who}> <{EX}at> <{EX}l{place}>".encode())
            for n, (who, place) in enumerate(self.moves)
        ]
        return Source("made", [line.encode() for line in stored], {"rfid": lines})

    # ---- what a loop over the moves finds

    def answers(self, name: str) -> Iterator[tuple[int, list[tuple[str, ...]]]]:
        """At each move: who moves, and the rows for those who ask about this person."""
        rows = {"Q1": self._of_q1, "Q3": self._of_q3, "Q4": self._of_q4}[name]()
        for n, (who, _) in enumerate(self.moves):
            yield who, rows(n)

    def _of_q1(self) -> Callable[[int], list[tuple[str, ...]]]:
        def rows(n: int) -> list[tuple[str, ...]]:
            place = self.moves[n][1]
            return [(f"<{EX}l{place}>", f'"place {place}"')]

        return rows

    def _of_q3(self) -> Callable[[int], list[tuple[str, ...]]]:
        together: Counter[tuple[int, int]] = Counter()
        for authors in self.authors:
            together.update((one, other) for one in authors for other in authors if one != other)

        def rows(n: int) -> list[tuple[str, ...]]:
            who, place = self.moves[n]
            there = [one for one, at in self.moves[max(0, n + 1 - 5_000 // _STEP_MS) : n + 1] if at == place]
            return [(f'"name {one}"',) for one in there for _ in range(together[who, one])]

        return rows

    def _of_q4(self) -> Callable[[int], list[tuple[str, ...]]]:
        edited: defaultdict[int, Counter[int]] = defaultdict(Counter)
        for paper, authors in enumerate(self.authors):
            for author in authors:
                edited[author][self.editors[paper % _BOOKS]] += 1

        def rows(n: int) -> list[tuple[str, ...]]:
            who, place = self.moves[n]
            latest = self.moves[max(0, n + 1 - 15_000 // _STEP_MS) : n + 1]
            there = [one for one, at in latest if at in _near(place)]
            return [(f'"name {one}"',) for one in there for _ in range(edited[who][one])]

        return rows


def _near(place: int) -> tuple[int, int]:
    return (place + 1) % _PLACES, (place - 1) % _PLACES


def cqels_exp3(quick: bool) -> Measures:
    return {
        f"{name}_{1 << exponent}": partial(_asked, quick, name, 1 << exponent)
        for name in _QUERIES
        for exponent in ((0, 3) if quick else (0, 4, 7, 10))
    }


def _asked(quick: bool, name: str, count: int, folder: Path) -> Figures:
    """Milliseconds for each arrival. All rows are counted by a loop over the moves, and compared for one batch."""
    select, pattern = _QUERIES[name]
    conference = Conference.of(*(200, 500, 600) if quick else (2_000, 20_000, 2_000))
    data = conference.source()
    tape = Tape(data, ("rfid",))
    batches = tape.as_recorded(100)
    replay = Replay(folder, data, tape, batches, interleaved=True)
    asks = [n % _BADGES for n in range(count)]
    texts = [f"REGISTER QUERY q{n} AS {select} WHERE {{ {pattern.format(e=EX, n=who)} }}" for n, who in enumerate(asks)]
    stepped = replay.run(texts, retained=(len(batches) - 1,))
    last = len(conference.moves) - len(batches[-1].time)
    of_whom = defaultdict[int, list[str]](list)
    for number, who in enumerate(asks, 1):
        of_whom[who].append(str(number))
    expected, total = Counter[tuple[str, ...]](), 0
    for n, (who, rows) in enumerate(conference.answers(name)):
        total += len(rows) * len(of_whom[who])
        if n >= last:
            expected.update((number, *row) for number in of_whom[who] for row in rows)
    emitted = sum(sum(each.rows) for each in stepped)
    if emitted != total:
        raise AssertionError(f"{name} of {count} emitted {emitted} rows, and a loop over the moves has {total}")
    rows_compared = compared(rows_of(replay, stepped[-1]), expected)
    replay.close()
    ms = round(sum(each.cpu for each in stepped) * 1e3 / len(conference.moves), 4)
    return {**measured(stepped, batches), "rows": emitted, "checked_rows": rows_compared, "ms_an_arrival": ms}
