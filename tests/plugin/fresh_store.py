"""The plugin's store as rdflib's default one: who makes a Graph has a new store of ours, which goes with the Graph."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from typing import Any

from rdflib import plugin
from rdflib.store import VALID_STORE, Store

from plugin.store import RilletStore
from stream_ext.clock import SystemClock
from stream_ext.service.service import Service


class FreshStore(RilletStore):
    def __init__(self, configuration: Any = None, identifier: Any = None) -> None:
        folder = tempfile.mkdtemp(prefix="rillet-fresh-")
        service = Service.open(f"lmdb:{folder}", base="http://ex/", clock=SystemClock(), engine="inline")
        weakref.finalize(self, _end, service, folder)
        super().__init__(service, identifier)

    def open(self, configuration: Any, create: bool = False) -> int:
        """Open it is; what rdflib's memory store is told here means nothing to that either."""
        return super().open(configuration, create) if isinstance(configuration, Service) else VALID_STORE

    def close(self, commit_pending_transaction: bool = False) -> None:
        self.commit()

    def destroy(self, configuration: Any) -> None:
        """It goes with its Graph."""


def _end(service: Service, folder: str) -> None:
    service.close()
    shutil.rmtree(folder)


def take_over() -> None:
    """From now on it is what `Graph()` and `Dataset()` are made on; a cluster is not tested here."""
    for name in ("default", "Memory"):
        plugin._plugins[(name, Store)] = plugin.Plugin(name, Store, __name__, FreshStore.__name__)
    del plugin._plugins[("HBase", Store)]
