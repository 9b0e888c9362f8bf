"""What a text means, for a page: the lines of the explanation as a tree, and the operators that would evaluate it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from endpoint.console.display import shortened
from endpoint.console.editor.in_words import warnings
from stream_ext.language.algebra.statements import Unit
from stream_ext.oneshot.explain_text import explain_text

#: An operator with more than this part of the time of all is marked.
_HOT = 0.4


@dataclass(frozen=True, slots=True)
class Node:
    text: str
    below: list[Node] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Operator:
    text: str
    estimated: float | None  # rows
    rows: int | None  # None: the query was not run
    ms: float | None
    is_hot: bool  # it took much of the time, or if that is not known, it has much of the rows


@dataclass(frozen=True, slots=True)
class SourcePart:
    """What an attached store has to do with it: a pattern that is held or asked, or a question to it."""

    text: str
    way: str
    quads: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    text: str
    tree: list[Node]
    operators: list[Operator]
    sources: list[SourcePart]
    ms: float | None = None  # how long the operators took together; None: the query was not run
    warnings: tuple[str, ...] = ()


def plan_of(unit: Unit, explained: Mapping[str, Any], prefixes: Mapping[str, str]) -> Plan:
    """`explained` is what `Service.explain` says of the same text."""
    text = explain_text(unit, explained.get("whole", {}).get("functions", ()))
    operators = _operators(explained.get("operators", ()), prefixes)
    sources = [_source_part(each) for each in explained.get("sources", ())]
    return Plan(text, tree(text), operators, sources, explained.get("ms"), tuple(warnings(explained)))


def _source_part(explained: Mapping[str, Any]) -> SourcePart:
    if "asked" in explained:
        there = "asked: only it has data for this" if explained["exclusive"] else "asked, beside Rillet's own store"
        return SourcePart(explained["asked"], there, None)
    why = explained.get("error")
    return SourcePart(
        explained.get("pattern", ""), f"not known: {why}" if why else explained["way"], explained.get("quads")
    )


def tree(text: str) -> list[Node]:
    """A line that is indented further than the one before it belongs to that one."""
    top = Node("")
    path = [(-1, top)]
    for line in text.splitlines():
        if not line.strip():
            continue
        depth = len(line) - len(line.lstrip())
        while path[-1][0] >= depth:
            path.pop()
        node = Node(line.strip())
        path[-1][1].below.append(node)
        path.append((depth, node))
    return top.below


def _operators(listed: Any, prefixes: Mapping[str, str]) -> list[Operator]:
    effort = "ms" if any("ms" in each for each in listed) else "estimated"
    most = _HOT * sum(each.get(effort, 0) for each in listed)
    return [
        Operator(
            shortened(each["operator"], prefixes),
            each.get("estimated"),
            each.get("rows"),
            each.get("ms"),
            bool((took := each.get(effort)) and took > most and len(listed) > 1),
        )
        for each in listed
    ]
