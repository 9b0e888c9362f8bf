"""The operators of a registered query while it runs: rows, time and state of each, as a table that refreshes itself.

Measuring begins when the page is opened, and ends when nobody has looked for some seconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flask import render_template
from flask.typing import ResponseReturnValue

from endpoint.console.display import prefixes_of, shortened
from endpoint.console.room import Room

#: An operator with more than this part of the time of all is marked.
_HOT = 0.4


@dataclass(frozen=True, slots=True)
class Measured:
    """One operator. `share`: its part of the time of all operators."""

    text: str
    shared_with: Sequence[str]  # some of the queries that have it, too
    rows: int | None
    rows_each: float | None  # of an evaluation
    ms_each: float | None
    share: float
    state_bytes: int | None
    is_hot: bool


@dataclass(frozen=True, slots=True)
class MeasuredNetwork:
    evaluated: str
    seconds: float
    evaluations: int
    ms_each: float
    operators: Sequence[Measured]


def page(room: Room, name: str) -> ResponseReturnValue:
    found = room.service.query_operators(name)
    prefixes = prefixes_of(room.service.query_definition(name).text)
    return render_template(
        "console/operators.html",
        name=found["query"],
        why=found["why"],
        shared_by=found["shared_by"],
        networks=[_network(each, prefixes) for each in found["networks"]],
    )


def _network(network: Mapping[str, Any], prefixes: Mapping[str, str]) -> MeasuredNetwork:
    evaluations, ms = network["evaluations"], network["ms"]
    return MeasuredNetwork(
        network["evaluated"],
        network["seconds"],
        evaluations,
        ms / max(1, evaluations),
        list(_operators(network["operators"], evaluations, ms, prefixes)),
    )


def _operators(
    operators: Sequence[Mapping[str, Any]], evaluations: int, ms: float, prefixes: Mapping[str, str]
) -> Iterator[Measured]:
    own = [each for each in operators if "rows" in each]
    for each in operators:
        text = shortened(each["operator"], prefixes)
        if "rows" not in each:
            yield Measured(text, each.get("shared_with", ()), None, None, None, 0.0, None, False)
            continue
        share = each["ms"] / ms if ms else 0.0
        rows_each, ms_each = (each["rows"] / evaluations, each["ms"] / evaluations) if evaluations else (None, None)
        is_hot = len(own) > 1 and share > _HOT
        others, state_bytes = each.get("shared_with", ()), each["state_bytes"]
        yield Measured(text, others, each["rows"], rows_each, ms_each, share, state_bytes, is_hot)
