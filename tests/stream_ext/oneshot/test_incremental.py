"""A question that stands answers, at each snapshot of a store that grows and shrinks, as one that is asked afresh.

The generated questions and data are those of the differential test; a failure says its seed and how to play it again:

    python -m tests.stream_ext.oneshot.test_incremental SEED"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

import pytest

from stream_ext.errors import QuerySyntaxError
from tests.stream_ext.generated import Asked, Quad, smaller
from tests.stream_ext.low_capacities import small_plans
from tests.stream_ext.oneshot.test_differential import made
from tests.stream_ext.peers import TooMuch
from tests.stream_ext.standing import Changing, Standing, steps

_SNAPSHOTS = 5
Steps = list[tuple[list[Quad], list[Quad]]]


@pytest.mark.parametrize("block", range(6))
def test_a_standing_question_answers_as_a_fresh_one(block: int, tmp_path: Path) -> None:
    compared = sum(play(seed, tmp_path / str(seed)) for seed in range(block * 8, block * 8 + 8))
    assert compared > 100, "these seeds compare too little to prove anything"


def test_it_does_so_where_both_are_planned_as_if_they_had_thousands_of_parts(tmp_path: Path) -> None:
    with small_plans():
        assert sum(play(seed, tmp_path / str(seed)) for seed in range(60, 68)) > 100


@pytest.mark.soak
@pytest.mark.parametrize("block", range(200))
def test_standing_questions_answer_as_fresh_ones_thousands_of_times(block: int, tmp_path: Path) -> None:
    for seed in range(10_000 + block * 25, 10_000 + block * 25 + 25):
        play(seed, tmp_path / str(seed))


def play(seed: int, place: Path) -> int:
    """How many answers were compared."""
    try:
        data, queries = made(seed)
    except TooMuch:
        return 0
    changes = steps(random.Random(seed), data, _SNAPSHOTS)
    wrong = difference(place / "all", queries, changes)
    if wrong is not None:
        asked, observed = wrong
        raise AssertionError(report(seed, place, asked, changes, observed))
    return len(queries) * len(changes)


def difference(place: Path, queries: list[Asked], changes: Steps) -> tuple[Asked, str] | None:
    """The first question whose answer is another one than the fresh one's, and how."""
    changing = Changing(place)
    try:
        changing.change(*changes[0])
        standing = [(asked, each) for asked in queries if (each := begun(changing, asked)) is not None]
        for number, (inserted, deleted) in enumerate(changes):
            sn = changing.change(inserted, deleted) if number else int(changing.store.head())
            for asked, each in standing:
                mine, fresh = each.step(sn), each.fresh(sn)
                if mine != fresh:
                    return asked, f"snapshot {sn}: too much {mine - fresh}, missing {fresh - mine}"
    finally:
        changing.store.close()
    return None


def begun(changing: Changing, asked: Asked) -> Standing | None:
    """None for a text that is none: a generated one may give a variable two values."""
    try:
        return Standing(changing, asked)
    except QuerySyntaxError:
        return None


def report(seed: int, place: Path, asked: Asked, changes: Steps, observed: str) -> str:
    """With the least question and changes that still fail."""
    tries = iter(range(300))

    def fails(one: Asked, some: Steps) -> bool:
        number = next(tries, None)
        return number is not None and difference(place / f"less{number}", [one], some) is not None

    while (shorter := next((one for one in smaller(asked) if fails(one, changes)), None)) is not None:
        asked = shorter
    while (fewer := next((some for some in with_less(changes) if fails(asked, some)), None)) is not None:
        changes = fewer
    least = difference(place / "least", [asked], changes)
    lines = "\n".join(f"+ {inserted}\n- {deleted}" for inserted, deleted in changes)
    again = f"python -m tests.stream_ext.oneshot.test_incremental {seed}"
    return f"seed {seed} ({again})\n{asked}\n{lines}\n{least[1] if least else observed}"


def with_less(changes: Steps) -> list[Steps]:
    """The last step left out, or one quad of one step."""
    found = [changes[:-1]] if len(changes) > 1 else []
    for i, (inserted, deleted) in enumerate(changes):
        for quad in inserted:
            found.append([*changes[:i], ([q for q in inserted if q != quad], deleted), *changes[i + 1 :]])
        for quad in deleted:
            found.append([*changes[:i], (inserted, [q for q in deleted if q != quad]), *changes[i + 1 :]])
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for given in sys.argv[1:]:
            play(int(given), Path(folder) / given)
            print(f"seed {given}: nothing is wrong")
