"""The store: RDF and streams of it as a log of snapshots, on HBase or on LMDB.

    store = hbase_store.open("lmdb:PATH")
    batch = store.begin()
    s, p, o = batch.encode([b"<http://ex/s>", b"<http://ex/p>", b'"o"'])
    batch.insert(s, p, o, 0)
    store.at(store.commit(batch)).pairs(int(p))

What one publish wrote is a *slab*; slabs are merged into sorted *runs*, which is called folding.

Beside the rooms are the open store: `store` publishes, `reading` reads rows of snapshots, `verification` checks after a
crash. Names are imported when they are first used, so that importing this package costs next to nothing."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hbase_store.backends.calls import Calls, purpose, purposes
    from hbase_store.backends.lease import this_machine
    from hbase_store.edges.snapshot import NAMED, Rows, Snapshot
    from hbase_store.layout.rows import CatalogChange, PushMark, Sn, SnRow, StreamMove, StreamPosition
    from hbase_store.layout.stream_columns import StreamColumns
    from hbase_store.log.emission_rows import EmissionRow
    from hbase_store.log.emissions import EmissionLog
    from hbase_store.opening import place_of_files
    from hbase_store.store import Store
    from hbase_store.store import open_store as open
    from hbase_store.writing.batch import Batch
    from hbase_store.writing.loading import Loading
    from hbase_store.writing.preview import Preview

_PLACES = {
    "Calls": "hbase_store.backends.calls",
    "Batch": "hbase_store.writing.batch",
    "CatalogChange": "hbase_store.layout.rows",
    "EmissionLog": "hbase_store.log.emissions",
    "EmissionRow": "hbase_store.log.emission_rows",
    "Loading": "hbase_store.writing.loading",
    "NAMED": "hbase_store.edges.snapshot",
    "Preview": "hbase_store.writing.preview",
    "PushMark": "hbase_store.layout.rows",
    "Rows": "hbase_store.edges.snapshot",
    "Sn": "hbase_store.layout.rows",
    "SnRow": "hbase_store.layout.rows",
    "Snapshot": "hbase_store.edges.snapshot",
    "Store": "hbase_store.store",
    "StreamColumns": "hbase_store.layout.stream_columns",
    "StreamMove": "hbase_store.layout.rows",
    "StreamPosition": "hbase_store.layout.rows",
    "open": "hbase_store.store",
    "place_of_files": "hbase_store.opening",
    "purpose": "hbase_store.backends.calls",
    "purposes": "hbase_store.backends.calls",
    "this_machine": "hbase_store.backends.lease",
}

__all__ = [
    "NAMED",
    "Batch",
    "Calls",
    "CatalogChange",
    "EmissionLog",
    "EmissionRow",
    "Loading",
    "Preview",
    "PushMark",
    "Rows",
    "Sn",
    "SnRow",
    "Snapshot",
    "Store",
    "StreamColumns",
    "StreamMove",
    "StreamPosition",
    "open",
    "place_of_files",
    "purpose",
    "purposes",
    "this_machine",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(_PLACES[name])
    value = getattr(module, "open_store" if name == "open" else name)
    globals()[name] = value
    return value
