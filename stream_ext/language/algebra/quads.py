"""The quads of an update, as a pattern that looks for them.

{ ?s :p ?o . GRAPH ?g { ?s :q ?o } }    =>    Join(Bgp(?s :p ?o), Graph(?g, Bgp(?s :q ?o)))"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from stream_ext.language.algebra.algebra import Bgp, Graph, Join, Pattern, QuadPattern, TriplePattern
from stream_ext.language.algebra.terms import Node, Position


def pattern_of(quads: Sequence[QuadPattern], position: Position) -> Pattern:
    """The same quads, as a pattern that looks for them."""
    parts = [_part(graph, list(group), position) for graph, group in groupby(quads, key=lambda quad: quad.graph)]
    pattern = parts[0] if parts else Bgp(())
    for part in parts[1:]:
        pattern = Join(pattern, part)
    return pattern


def _part(graph: Node | None, quads: Sequence[QuadPattern], position: Position) -> Pattern:
    # The parser lets no blank node stand in what is deleted.
    triples = Bgp(tuple(TriplePattern(each.subject, each.predicate, each.object, position) for each in quads))  # type: ignore[arg-type]
    return triples if graph is None else Graph(graph, triples, position)
