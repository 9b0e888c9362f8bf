"""United arrivals: the evaluations of a divided query at the arrivals of one snapshot.

evaluations    1 2 3 4 5 6            all of them are made by each shard
shard 0        1     4                emits something at these
shard 1        1 2                    and at these
united         1 2   4                each with the rows of both, in one part; then two evaluations without any"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from stream_ext.emissions.range_rows import CannotUnite, in_order, together
from stream_ext.windows.part import ManyEmissions, Part
from stream_ext.windows.query_state import QueryState

Longs = npt.NDArray[np.int64]

#: Of an emission: its number, then its other columns in `ManyEmissions`, up to the ends of rows.
_OF_EACH = ("ks", "times", "pushes", "arrived", "times_before", "pushes_before", "arrived_before")


class _Emissions(NamedTuple):
    """`lines`: the columns of emissions, sorted by number; then where each window begins, and where it ends. `rows`:
    the number of the emission that each row belongs to."""

    lines: list[Longs]
    rows: Longs


def at_arrivals(part: Part) -> bool:
    """Whether it is of evaluations at arrivals."""
    at = part.state.evaluated
    return part.many is not None or (part.evaluated and at is not None and at.arrived)


def united_arrivals(senders: Sequence[Sequence[Part]]) -> list[Part]:
    """The parts of one query in one snapshot, from all shards that have ranges of it."""
    numbers = [part.query for parts in senders for part in parts][:1]
    for parts in senders:
        _check(parts, numbers)
    _check_same_course(senders, numbers)
    evaluated = [[part for part in parts if part.evaluated] for parts in senders]
    emitting = [part for parts in evaluated for part in parts if part.emits]
    first = senders[0]
    if not emitting:
        gap = all(parts[-1].state.gap for parts in senders)
        return [_with_gap(part, gap) for part in first]
    base = max(emitting, key=lambda part: part.k)
    owner = next(parts for parts in senders if any(part is base for part in parts))
    after = [part for part in owner if not part.evaluated or part.k > base.k]
    gap = all(_gap_before(parts) for parts in senders)
    return [_one_of(base, emitting, gap, numbers), *(_with_gap(part, False) for part in after)]


def _check(parts: Sequence[Part], numbers: Sequence[int]) -> None:
    if any(part.given_up or part.after_move for part in parts):
        raise CannotUnite(numbers, "the evaluation of a range failed, or the query was moved")
    if any(part.state.behind_at is not None for part in parts):
        raise CannotUnite.fell_behind(numbers)
    if any(part.terms is not None for part in parts):
        raise CannotUnite.has_no_ids(numbers)


def _check_same_course(senders: Sequence[Sequence[Part]], numbers: Sequence[int]) -> None:
    """All shards must have made the same evaluations, and be in the same state after them."""
    courses = [_course(parts) for parts in senders]
    if any(course != courses[0] for course in courses):
        raise CannotUnite.at_other_times(numbers)


def _course(parts: Sequence[Part]) -> tuple[int, QueryState | None, int]:
    """How many evaluations there were, the state after them, and how many parts are without any."""
    state = msgspec.structs.replace(parts[-1].state, gap=False) if parts else None
    return sum(part.evaluations for part in parts), state, sum(not part.evaluated for part in parts)


def _gap_before(parts: Sequence[Part]) -> bool:
    """Whether the shard had emitted nothing since a pause when the snapshot began."""
    first = next((part for part in parts if part.evaluated and part.emits), None)
    return parts[-1].state.gap if first is None else first.gap


def _with_gap(part: Part, gap: bool) -> Part:
    state = msgspec.structs.replace(part.state, gap=gap)
    return msgspec.structs.replace(part, state=state, is_range=False)


def _one_of(base: Part, emitting: Sequence[Part], gap: bool, numbers: Sequence[int]) -> Part:
    """One part of all emissions; `base` has the last of them."""
    created, columns = together(emitting)
    found = _emissions_of(emitting)
    if len(columns) and len(columns[0]):
        order = in_order(found.rows.view(np.uint64), columns, numbers)
        columns, rows = [column[order] for column in columns], found.rows[order]
    else:
        rows = found.rows
    ks, *lines = found.lines
    stops = np.searchsorted(rows, ks, "right").tolist()
    lists = [line.tolist() for line in (ks, *lines)]
    of_each, windows = lists[: len(_OF_EACH)], lists[len(_OF_EACH) :]
    half = len(windows) // 2
    numbers_of, times, pushes, arrived, *before_each = of_each
    times_before, pushes_before, arrived_before = before_each
    many = ManyEmissions(
        numbers_of, times, pushes, arrived, times_before, pushes_before, arrived_before, stops, windows[:half],
        windows[half:],
    )  # fmt: skip
    begins = min(emitting, key=lambda part: int(_ks(part)[0]))
    return msgspec.structs.replace(
        base, columns=columns, created=created, before=begins.before, gap=gap, many=many,
        state=msgspec.structs.replace(base.state, gap=False), silent_before=base.k + 1 - len(ks), is_range=False,
    )  # fmt: skip


def _ks(part: Part) -> Longs:
    return np.array([part.k] if part.many is None else part.many.ks, np.int64)


def _emissions_of(parts: Sequence[Part]) -> _Emissions:
    """Each emission once, though several shards may have rows of it."""
    lines, rows = [_lines_of(part) for part in parts], list[Longs]()
    for part, (ks, *_) in zip(parts, lines, strict=True):
        stops = [len(part.columns[0]) if part.columns else 1] if part.many is None else part.many.stops
        ends = np.array([0, *stops], np.int64)
        rows.append(np.repeat(ks, ends[1:] - ends[:-1]))
    joined = [np.concatenate(each) for each in zip(*lines, strict=True)]
    _, firsts = np.unique(joined[0], return_index=True)
    return _Emissions([line[firsts] for line in joined], np.concatenate(rows))


def _lines_of(part: Part) -> list[Longs]:
    many = part.many if part.many is not None else _many_of(part)
    lines = [np.array(getattr(many, name), np.int64) for name in _OF_EACH]
    # Of the first emission of a part the columns do not say which evaluation was before it; the part does.
    if (before := part.before) is not None:
        for line, value in zip(lines[4:], (before.time, before.push, before.arrived_at or 0), strict=True):
            line[0] = value
    return [*lines, *(np.array(line, np.int64) for line in (*many.starts, *many.ends))]


def _many_of(part: Part) -> ManyEmissions:
    """Of a part with one emission."""
    at = part.state.evaluated
    assert at is not None, "it is of an evaluation"
    starts, ends = [[bounds.start] for bounds in part.windows], [[bounds.end] for bounds in part.windows]
    return ManyEmissions([at.k], [at.time], [at.push], [at.arrived_at or 0], [0], [0], [0], [], starts, ends)
