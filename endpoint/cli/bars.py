"""The line of bars of `rillet watch`: the last values of one column of numbers, the one that changes most.

limit  mean                     limit  mean
   40  41.9      and later         40  43.1      -->  ?mean ▁█"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from endpoint.cli import terminal

_WIDTH = 40
_ROWS = "rows"


class Bars:
    def __init__(self) -> None:
        self._values: dict[str, deque[float]] = {}

    def line(self, emission: Mapping[str, Any]) -> str:
        """With this emission: of a column of numbers its mean; if there are none, how many rows it has."""
        for name, value in _means(emission):
            self._values.setdefault(name, deque(maxlen=_WIDTH)).append(value)
        drawn = [name for name in self._values if name != _ROWS] or [_ROWS]
        most = max(drawn, key=lambda name: len(set(self._values[name])))  # the first of several
        return f"{most} {terminal.sparkline(self._values[most], _WIDTH)}"


def _means(emission: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    columns, rows = terminal.answer_rows(emission)
    yield _ROWS, float(len(rows))
    for place, name in enumerate(columns):
        numbers = [number for row in rows if (number := terminal.number(row[place])) is not None]
        if numbers and len(numbers) == len(rows):
            yield f"?{name}", sum(numbers) / len(numbers)
