"""rdflib's memory store, watched, as its default one: whoever makes a Graph or Dataset has one of its own."""

from __future__ import annotations

from typing import Any

from rdflib import Dataset, Graph, plugin
from rdflib.plugins.stores.memory import Memory
from rdflib.store import Store

from plugin.attached.watched_store import WatchedStore
from tests.plugin.attached.held_sets import HeldSet


class WatchedMemory(WatchedStore):
    """Everything is held, and each change is checked when it is made."""

    context_aware = graph_aware = formula_aware = True  # of the class, too: rdflib's tests look there

    def __init__(self, configuration: Any = None, identifier: Any = None) -> None:
        dataset = Dataset(store=Memory(configuration, identifier))
        self.held_set = HeldSet(dataset)
        super().__init__(dataset, self.held_set, _handle, self._check)

    def _check(self) -> None:
        if not self.lock._is_owned():  # type: ignore[attr-defined]  # of every RLock
            self.take_over()
            assert self.held_set.quads == self.held_set.present()


def _handle(store: WatchedStore, context: Graph) -> Graph:
    return Graph(store=store, identifier=context.identifier, base=context.base)


def take_over() -> None:
    for name in ("default", "Memory"):
        plugin._plugins[(name, Store)] = plugin.Plugin(name, Store, __name__, WatchedMemory.__name__)
    del plugin._plugins[("HBase", Store)]  # a cluster is not tested here
