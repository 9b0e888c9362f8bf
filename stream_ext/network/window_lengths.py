"""Window lengths: which operators of a timing do the same over windows of other lengths.

The longest window has all that shorter ones have. A row over it says until when it is valid, so over a window that is
shorter by so much it is valid until so much earlier. What is made of such rows alone, by joins and filters, is the same
for all lengths, too. So one operator is enough.

    q1   RANGE 10s   ?a :p ?b . ?b :q ?c   has the scans and the join
    q2   RANGE 4s    ?x :p ?y . ?y :q ?z   has the rows of q1's join, six seconds shorter

Operators are of one shape if they differ in the length of their windows only; and if there are several windows, all of
them by the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from stream_ext.network.operators.core.shareable import Shareable
from stream_ext.network.operators.core.shared_stage import SharedStage, StageKey
from stream_ext.network.operators.scans.window_scan import WindowScan

#: A window has the rows of one that is so many times as long at most: what it does not need it has to leave out.
LONGER_MAX = 8


class OperatorShape:
    """`keys`: those of its operators, by the length of their windows; of several windows of the first one. `below`: the
    shapes of what these read; `above`: of what reads these."""

    __slots__ = ("above", "below", "description", "keys", "step_ms")

    def __init__(self, description: object, step_ms: int, below: Sequence[OperatorShape]) -> None:
        self.description, self.step_ms, self.below = description, step_ms, below
        self.keys: dict[int, StageKey] = {}
        self.above: dict[OperatorShape, None] = {}


class Sized(NamedTuple):
    """A shape, with a length; no shape: it reads no windows."""

    shape: OperatorShape | None
    length_ms: int = 0


class WindowLengths:
    def __init__(self) -> None:
        self._shapes: dict[object, OperatorShape] = {}
        self._sized: dict[StageKey, Sized] = {}
        self._changed: dict[OperatorShape, None] = {}  # since they were looked at last

    def add(self, key: StageKey, operator: Shareable) -> None:
        """An operator that was not known yet. What it reads is known."""
        sized = self._sized_as(key, operator)
        if sized is None or key in self._sized:
            return
        self._sized[key] = sized
        if sized.shape is not None:
            sized.shape.keys[sized.length_ms] = key
            self._note(sized.shape)

    def _sized_as(self, key: StageKey, operator: Shareable) -> Sized | None:
        """None: it has nothing in common with what is over windows of other lengths."""
        likeness, inputs = key
        if isinstance(operator, WindowScan):
            window = operator.window
            if not window.is_stepped or window.by_arrival or window.start_ms is not None:
                return None
            alike = replace(window, name="", range_ms=0), *likeness[1:]
            return Sized(self._shape(alike, window.step_ms, ()), window.range_ms)
        read = [self._sized.get(each.key) for each in inputs]
        windowed = [each for each in read if each is not None and each.shape is not None]
        if None in read or not (operator.is_monotone or not windowed):
            return None
        if not windowed:
            return Sized(None)
        first, below = windowed[0], [each.shape for each in windowed if each.shape is not None]
        description = (
            likeness,
            *(
                each if sized is None or sized.shape is None else (sized.shape, sized.length_ms - first.length_ms)
                for each, sized in zip(inputs, read, strict=True)
            ),
        )
        return Sized(self._shape(description, below[0].step_ms, below), first.length_ms)

    def _shape(self, description: object, step_ms: int, below: Sequence[OperatorShape]) -> OperatorShape:
        shape = self._shapes.get(description)
        if shape is None:
            shape = self._shapes[description] = OperatorShape(description, step_ms, below)
        for each in below:
            each.above[shape] = None
        return shape

    def remove(self, key: StageKey) -> None:
        """Nobody has the operator any more."""
        shape, length_ms = self._sized.pop(key, Sized(None))
        if shape is None or shape.keys.get(length_ms) != key:
            return
        del shape.keys[length_ms]
        if not shape.keys and self._shapes.get(shape.description) is shape:
            del self._shapes[shape.description]
            self._changed.pop(shape, None)
            for below in shape.below:
                below.above.pop(shape, None)

    # ---- which of them may have the rows of which

    def _note(self, shape: OperatorShape) -> None:
        if len(shape.keys) > 1:
            self._changed[shape] = None

    def united(self, stage: SharedStage) -> None:
        """It has the rows of another one now: so may what reads it."""
        shape = self._sized[stage.key].shape
        for above in () if shape is None else shape.above:
            self._note(above)

    def again(self, shape: OperatorShape) -> bool:
        """To be looked at once more, if there are still several."""
        self._note(shape)
        return shape in self._changed

    def next_changed(self) -> OperatorShape | None:
        """One that has got other operators, or whose inputs have. Shapes of inputs come before those of their
        readers."""
        shape = next(iter(self._changed), None)
        if shape is not None:
            del self._changed[shape]
        return shape

    def pairs(
        self, shape: OperatorShape, stages: Mapping[StageKey, SharedStage]
    ) -> Iterator[tuple[StageKey, StageKey, int]]:
        """Operators with one over longer windows whose rows they might have, the longest first: (key, key of the longer
        one, by how much it is longer). `stages`: those that are shared."""
        lengths = sorted(shape.keys, reverse=True)
        for longest in lengths:
            source = stages.get(shape.keys[longest])
            if source is not None and source.longer is not None:
                continue
            for length in lengths:
                own = stages.get(shape.keys[length])
                has_other = own is not None and own.longer is not None
                if length >= longest or (longest - length) % shape.step_ms or has_other:
                    continue
                if longest <= LONGER_MAX * min([length, *self._lengths_of_shorter(own)]):
                    yield shape.keys[length], shape.keys[longest], longest - length

    def _lengths_of_shorter(self, stage: SharedStage | None) -> list[int]:
        if stage is None or not stage.shorter:
            return []
        return [self.length_ms(each.key) for each in stage.shorter]

    def length_ms(self, key: StageKey) -> int:
        return self._sized[key].length_ms
