"""What an operation of an update works on: the batch that becomes the snapshot, and the store as it is by then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hbase_store import Preview, Snapshot
from hbase_store.arrays import Columns
from hbase_store.layout.terms import NO_TERM
from stream_ext.language.algebra.terms import Constant
from stream_ext.oneshot.evaluate import Asking
from stream_ext.writer.charged import ChargedBatch, room_of
from stream_ext.writer.derived_graphs import DerivedGraphs
from stream_ext.writer.updates.other_store import SourceAside

#: As the graph of a quad.
DEFAULT_GRAPH = NO_TERM


class CannotUpdate(Exception):
    """Why an operation fails; whoever runs it says where it stands in the request."""


class Forbidden(Exception):
    """It is not for this server to do."""


@dataclass(frozen=True, slots=True)
class Working:
    batch: ChargedBatch
    preview: Preview
    asking: Asking
    derived: DerivedGraphs

    @property
    def snapshot(self) -> Snapshot:
        """The store with all that was done up to now."""
        self.batch.seen()
        return self.preview.snapshot()

    def edges(self, graph: int) -> Iterator[tuple[int, Columns]]:
        """Each predicate with the columns of its edges in a graph (or NAMED), as they are now; no more at a time than
        there is room for."""
        return self.snapshot.by_predicate(graph, room_of(self.asking.control))

    @property
    def aside(self) -> SourceAside | None:
        """The source main, which is one dataset with what is written to."""
        source = self.asking.sources.main
        return None if source is None else SourceAside(source, self.asking.control)

    def check_writable(self, graph: Constant | None) -> None:
        if graph is not None and (why := self.derived.why_not(graph.text)) is not None:
            raise CannotUpdate(why)

    def known_graph(self, graph: Constant | None) -> int | None:
        """The id of a graph (None: the default graph); None if nobody has ever used the name."""
        if graph is None:
            return DEFAULT_GRAPH
        return int(self.preview.ids([graph.text])[0]) or None

    def graph(self, graph: Constant | None) -> int:
        """The same, and a new id for a name that nobody has used."""
        return DEFAULT_GRAPH if graph is None else int(self.batch.encode([graph.text])[0])
