"""Three engines, one question: where pyoxigraph and rdflib agree, we answer as they do; what ORDER BY and LIMIT add
to that is checked against the specification itself.

A failure says its seed and how to play it again, and shows the smallest query and data that still fail:

    python -m tests.stream_ext.oneshot.test_differential SEED"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.stream_ext.generated import Asked, Maker, Quad, quads, smaller
from tests.stream_ext.low_capacities import small_plans
from tests.stream_ext.peers import Answered, Ours, TooMuch, compare, pyoxigraph_of
from tests.stream_ext.spec_order import out_of_order

_QUERIES = 6  # over each data
#: seed: where both peers err, and the sentence of the specification that says so.
TRIAGED: dict[int, str] = {}


@pytest.mark.parametrize("block", range(8))
def test_we_answer_as_two_peers_that_agree(block: int, tmp_path: Path) -> None:
    compared = sum(play(seed, tmp_path / str(seed)) for seed in range(block * 25, block * 25 + 25))
    assert compared > 100, "these seeds compare too little to prove anything"


@pytest.mark.parametrize("seed", [709])
def test_we_still_do_so_where_we_once_did_not(seed: int, tmp_path: Path) -> None:
    """709: OFFSET within NOT EXISTS, for a solution that has no value for the variable that the two share."""
    assert play(seed, tmp_path / str(seed)) > 0


def test_we_do_so_where_queries_are_planned_as_if_they_had_thousands_of_parts(tmp_path: Path) -> None:
    with small_plans():
        assert sum(play(seed, tmp_path / str(seed)) for seed in range(25)) > 100


@pytest.mark.soak
@pytest.mark.parametrize("block", range(200))
def test_we_answer_as_two_peers_that_agree_thousands_of_times(block: int, tmp_path: Path) -> None:
    for seed in range(10_000 + block * 50, 10_000 + block * 50 + 50):
        play(seed, tmp_path / str(seed))


def made(seed: int) -> tuple[list[Quad], list[Asked]]:
    """Data and queries; of some that were made, the first that answers anything is taken."""
    chance = random.Random(seed)
    data = quads(chance, chance.choice((12, 20, 30, 40)))
    oxigraphs: dict[object, Callable[..., Answered]] = {None: pyoxigraph_of(data)}

    def says_something(asked: Asked) -> bool:
        if asked.graphs not in oxigraphs:
            oxigraphs[asked.graphs] = pyoxigraph_of(asked.seen(data))
        answered = oxigraphs[asked.graphs](asked.whole.over_all)
        return bool(answered.rows or answered.boolean)

    chosen = []
    for _ in range(_QUERIES):
        tried = [Maker(chance).query() for _ in range(4)]
        chosen.append(next((asked for asked in tried if says_something(asked)), tried[-1]))
    return data, chosen


def play(seed: int, place: Path) -> int:
    """How many of its questions were compared with a peer that has an answer to them."""
    if seed in TRIAGED:
        return 0
    try:
        data, queries = made(seed)
    except TooMuch:
        return 0
    with closing(Ours(place / "all", data)) as ours:
        for asked in queries:
            wrong = judged(ours, data, asked)
            assert not wrong, report(seed, place, data, asked, wrong)
        return sum(not ours.ask(asked.whole).error for asked in queries)


def judged(ours: Ours, data: list[Quad], asked: Asked) -> str:
    """What is wrong with our answer; "" if nothing is."""
    return compare(ours, data, asked) or misordered(ours, asked)


def misordered(ours: Ours, asked: Asked) -> str:
    """ORDER BY sorts the whole answer; OFFSET and LIMIT are a slice of that."""
    if not asked.keys and asked.limit is None and not asked.offset:
        return ""
    whole, ordered, cut = ours.ask(asked.whole), ours.ask(asked.uncut), ours.ask(asked)
    if whole.error:
        return ""
    places = [whole.names.index(name) for name, _ in asked.keys]
    descending = [down for _, down in asked.keys]
    keyed = [[row[place] for place in places] for row in ours.raw(asked.uncut)]
    found = out_of_order(keyed, descending)
    if found is not None:
        return f"rows {found} are in the wrong order: {keyed[found[0]]} before {keyed[found[1]]}"
    if sorted(map(repr, ordered.rows)) != sorted(map(repr, whole.rows)):
        return "ORDER BY changes which rows there are"
    end = None if asked.limit is None else asked.offset + asked.limit
    if len(cut.rows) != len(ordered.rows[asked.offset : end]):
        return f"the slice has {len(cut.rows)} rows of {len(ordered.rows)}"
    if asked.keys and [[row[p] for p in places] for row in cut.rows] != [
        [row[p] for p in places] for row in ordered.rows[asked.offset : end]
    ]:
        return "the slice has other keys than the whole has there"
    return "" if not set(cut.rows) - set(whole.rows) else "the slice has rows that the whole has not"


# ---- telling of it -----------------------------------------------------------------------------------------------


def report(seed: int, place: Path, data: list[Quad], asked: Asked, wrong: str) -> str:
    data, asked = cut_down(place, data, asked)
    again = f"python -m tests.stream_ext.oneshot.test_differential {seed}"
    lines = "\n".join(" ".join(quad) for quad in data)
    with closing(Ours(place / "least", data)) as ours:
        least = judged(ours, data, asked) or wrong
    return f"seed {seed} ({again})\n{asked}\n{lines}\n{least}"


def cut_down(place: Path, data: list[Quad], asked: Asked) -> tuple[list[Quad], Asked]:
    """The same fault in less: quads and parts of the query are left out as long as it stays."""
    tries = iter(range(400))

    def fails(some: list[Quad], one: Asked) -> bool:
        try:
            with closing(Ours(place / f"less{next(tries)}", some)) as ours:
                return bool(judged(ours, some, one))
        except (TooMuch, StopIteration):
            return False

    while True:
        shorter = next((one for one in smaller(asked) if fails(data, one)), None)
        if shorter is None:
            break
        asked = shorter
    for quad in list(data):
        fewer = [each for each in data if each != quad]
        data = fewer if fails(fewer, asked) else data
    return data, asked


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for given in sys.argv[1:]:
            play(int(given), Path(folder) / given)
            print(f"seed {given}: nothing is wrong")
