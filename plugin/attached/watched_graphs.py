"""Graph, ConjunctiveGraph and Dataset of rdflib over a watched store. What one call changes is taken over together.

dataset.graph(name), dataset.default_graph, dataset.contexts()   give out graphs of this module, too"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, cast

from rdflib import Graph
from rdflib.graph import ConjunctiveGraph, Dataset
from rdflib.query import Result

from plugin.attached.quads import default_graph
from plugin.attached.watched_store import WatchedStore

#: Methods of rdflib's Graph that change a graph in several steps.
_STEPS = ("set", "parse", "__iadd__", "__isub__", "graph", "add_graph", "remove_graph", "remove_context")
#: Those that make a new graph, of the type of this one.
_MAKING = ("__add__", "__sub__", "__mul__", "__xor__", "__and__", "__or__")


def _as_one(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, during which nothing is taken over, and nobody else writes."""

    @wraps(method)
    def called(self: Graph, *args: Any, **more: Any) -> Any:
        with cast(WatchedStore, self.store).lock:
            return method(self, *args, **more)

    return called


def _of_original(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method of the graph over the store itself: what it makes has nothing to do with the store any more."""

    @wraps(method)
    def called(self: _Watched, *args: Any, **more: Any) -> Any:
        self.watched_store.settle()
        return getattr(self.original, method.__name__)(*args, **more)

    return called


class _Watched:
    """What all three have. `original`: the same graph or dataset over the store itself; it answers queries."""

    original: Graph
    watched_store: WatchedStore

    def query(self, *args: Any, **more: Any) -> Result:
        self.watched_store.settle()
        return self.original.query(*args, **more)

    def update(self, update_object: Any, *args: Any, **more: Any) -> None:
        with self.watched_store.lock:
            self.watched_store.update_of(self.plain(), update_object, *args, **more)
        self.watched_store.take_over()

    def plain(self) -> Graph:
        """The same as a type of rdflib's own, which its evaluator of updates insists on."""
        raise NotImplementedError

    def __init_subclass__(cls) -> None:
        for names, wrapped in ((_STEPS, _as_one), (_MAKING, _of_original)):
            for name in names:
                if hasattr(cls, name):
                    setattr(cls, name, wrapped(getattr(cls, name)))


class WatchedGraph(_Watched, Graph):
    def __init__(self, original: Graph, store: WatchedStore) -> None:
        super().__init__(store=store, identifier=original.identifier, base=original.base)
        self.namespace_manager = original.namespace_manager
        self.original, self.watched_store = original, store

    def plain(self) -> Graph:
        return Graph(self.store, self.identifier, self.namespace_manager, self.base)


class _WatchedContexts(_Watched):
    def get_context(self, identifier: Any, quoted: bool = False, base: str | None = None) -> WatchedGraph:
        original: ConjunctiveGraph = self.original  # type: ignore[assignment]  # a dataset
        return WatchedGraph(original.get_context(identifier, quoted, base), self.watched_store)


class WatchedConjunctiveGraph(_WatchedContexts, ConjunctiveGraph):
    def __init__(self, original: ConjunctiveGraph, store: WatchedStore) -> None:
        # Its own identifier is not that of its default graph; updates add to a graph of that name.
        super().__init__(store=store, identifier=original.identifier)
        self.namespace_manager = original.namespace_manager
        self.original, self.watched_store = original, store
        self.default_union = original.default_union
        self.default_context = WatchedGraph(default_graph(original), store)

    def plain(self) -> Graph:
        made = ConjunctiveGraph(self.store, self.identifier)
        made.default_union, made.namespace_manager = self.default_union, self.namespace_manager
        made.default_context = Graph(self.store, self.default_context.identifier)
        return made


class WatchedDataset(_WatchedContexts, Dataset):
    def __init__(self, original: Dataset, store: WatchedStore) -> None:
        super().__init__(store=store, default_union=original.default_union)
        self.namespace_manager = original.namespace_manager
        self.original, self.watched_store = original, store
        self._default_context = WatchedGraph(default_graph(original), store)

    def plain(self) -> Graph:
        made = Dataset(self.store, self.default_union)
        made.namespace_manager = self.namespace_manager
        return made


def watched(original: Graph, store: WatchedStore) -> WatchedGraph | WatchedConjunctiveGraph | WatchedDataset:
    """The graph or dataset to write to, in place of `original`."""
    if isinstance(original, Dataset):
        return WatchedDataset(original, store)
    if isinstance(original, ConjunctiveGraph):
        return WatchedConjunctiveGraph(original, store)
    return WatchedGraph(original, store)


def handle(store: WatchedStore, context: Graph) -> WatchedGraph:
    """What a watched store gives out in place of its graph `context`."""
    return WatchedGraph(Graph(store.inner, context.identifier, base=context.base), store)
