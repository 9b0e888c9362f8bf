"""The patterns of a source that a registered query needs: whatever its patterns over the store may match.

    SELECT * { WINDOW :w { ?taxi :in ?zone } ?zone :partOf :bern . GRAPH ?g { ?zone :pays ?fare } }
    =>  ?s :partOf ?o,   GRAPH ?g { ?s :pays ?o }

A constant that is a parameter of the query's template may stand for any: then queries that differ in it hold one thing
(`Need.shared`). Where that would be far more than the query itself needs, such as all types for `?x a :Taxi`, what its
own constants match is held (`Need.own`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from stream_ext.catalog.held_patterns import may_be_remote, patterns_of
from stream_ext.catalog.registered_text import RegisteredText
from stream_ext.catalog.sources import EVERY_GRAPH, HeldPattern
from stream_ext.plan.logic import Select, nodes_of


@dataclass(frozen=True, slots=True)
class Need:
    """What a pattern of a query needs: with the template's parameters as variables, and with its own constants.

    `may_be_remote`: the source can be asked for it with the keys of a window; the rest is held or refused."""

    shared: HeldPattern
    own: HeldPattern
    may_be_remote: bool = True


def needs_of(text: RegisteredText, remote_patterns: Collection[HeldPattern] = ()) -> frozenset[Need]:
    """`remote_patterns`: what the source is asked for, and which is not held for it."""
    own = _needed_by(text.select)
    # A template is its query but for its constants: part by part the same.
    shared = own if text.parametrised is None else _needed_by(text.parametrised.template.select)
    return frozenset(
        Need(of_template, pattern, may_be_remote)
        for (of_template, _), (pattern, may_be_remote) in zip(shared, own, strict=True)
        if not (may_be_remote and pattern in remote_patterns)
    )


def _needed_by(select: Select) -> list[tuple[HeldPattern, bool]]:
    return [(pattern, may_be_remote(node)) for node in nodes_of(select) for pattern in patterns_of(node)]


def widest(patterns: Iterable[HeldPattern]) -> list[HeldPattern]:
    """The patterns that no other of them covers, in order."""
    found: list[HeldPattern] = []
    # Whoever has fewer terms covers more.
    for pattern in sorted(
        set(patterns), key=lambda each: (sum(map(bool, each.terms)), each.graph != EVERY_GRAPH, each)
    ):
        if not any(other.covers(pattern) for other in found):
            found.append(pattern)
    return sorted(found)


def are_covered(patterns: Iterable[HeldPattern], held: Iterable[HeldPattern]) -> bool:
    held = list(held)
    return all(any(other.covers(pattern) for other in held) for pattern in patterns)
