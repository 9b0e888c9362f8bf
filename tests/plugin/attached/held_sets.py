"""A held copy that is a set of quads, and checks each change that it is given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rdflib import Graph

from plugin.attached.held import EVERY_GRAPH, HeldQuad, text_of
from plugin.attached.quads import QuadReader

ALL: tuple[HeldQuad, ...] = ((b"", b"", b"", b""), (b"", b"", b"", EVERY_GRAPH))


class HeldSet:
    """`graph`: the dataset itself, which it reads only to be filled, and when it is told to refresh."""

    def __init__(self, graph: Graph, patterns: Sequence[HeldQuad] = ALL) -> None:
        self._graph, self._reader, self.patterns = graph, QuadReader(graph), patterns
        self.changes = self.refreshes = 0
        self.quads = self.present()

    def present(self) -> set[HeldQuad]:
        """What is held of the dataset now, by reading all of it."""
        with as_committed(self._graph):
            found = {
                (*map(text_of, triple), b"" if name is None else text_of(name))
                for name in (None, *self._reader.graphs())
                for triple in self._reader.triples((None, None, None), name)
            }
        return {quad for quad in found if any(_matches(pattern, quad) for pattern in self.patterns)}

    def apply(self, inserted: Sequence[HeldQuad], deleted: Sequence[HeldQuad]) -> None:
        assert inserted or deleted, "a change that changes nothing"
        assert len({*inserted, *deleted}) == len(inserted) + len(deleted), "a quad twice"
        assert not self.quads & {*inserted}, "what was inserted was there"
        assert self.quads >= {*deleted}, "what was deleted was not there"
        self.quads = (self.quads - {*deleted}) | {*inserted}
        self.changes += 1

    def refresh(self) -> None:
        self.quads = self.present()
        self.refreshes += 1


@contextmanager
def as_committed(graph: Graph) -> Iterator[None]:
    """A store that commits whenever it is read does not do so here."""
    reads = getattr(graph.store, "dirty_reads", None)
    if reads is None:
        yield
        return
    graph.store.dirty_reads = True  # type: ignore[attr-defined]  # of SPARQLUpdateStore
    try:
        yield
    finally:
        graph.store.dirty_reads = reads  # type: ignore[attr-defined]


def _matches(pattern: HeldQuad, quad: HeldQuad) -> bool:
    is_in_graph = pattern[3] == quad[3] or (pattern[3] == EVERY_GRAPH and quad[3] != b"")
    return is_in_graph and all(mine in (b"", its) for mine, its in zip(pattern[:3], quad[:3], strict=True))
