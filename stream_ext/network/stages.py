"""The operators of a network as a tree, from the answer down to what is read: EXPLAIN of how a question is answered.

A chain of operators with one input each is a column of lines, the last one to work on top; where inputs meet, each
has a branch. An operator that several others read is told once, and named again where it is read again.

    group by city
    ?p <http://ex/age> ?age
    optional
    ├─ ?p <http://ex/city> ?city
    └─ ?p <http://ex/mbox> ?mbox"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stream_ext.network.wires import Stage


@dataclass(frozen=True, slots=True)
class Line:
    """What an operator does, after the lines of the tree; the stage that it is, None for one that was told above."""

    text: str
    stage: int | None


def lines_of(stages: Sequence[Stage]) -> Iterator[Line]:
    """The last stage is the answer's."""
    shown: set[int] = set()
    waiting = [(len(stages) - 1, "", "")]
    while waiting:
        at, first, rest = waiting.pop()
        stage = stages[at]
        if at in shown:
            yield Line(f"{first}{stage.says} (as above)", None)
            continue
        shown.add(at)
        yield Line(first + stage.says, at)
        inputs = [each for each in stage.inputs if stages[each].inputs or len(stage.inputs) > 1 or each != 0]
        if len(inputs) == 1:
            waiting.append((inputs[0], rest, rest))
            continue
        for number, each in reversed(list(enumerate(inputs))):
            last = number == len(inputs) - 1
            waiting.append((each, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  ")))
