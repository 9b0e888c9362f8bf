"""The store: RDF and streams of it as a log of snapshots, on HBase or on LMDB.

    store = hbase_store.open("lmdb:PATH")
    batch = store.begin()
    s, p, o = batch.encode([b"<http://ex/s>", b"<http://ex/p>", b'"o"'])
    batch.insert(s, p, o, 0)
    store.at(store.commit(batch)).pairs(int(p))

Names are imported when they are first used, so that importing this package costs next to nothing."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hbase_store.batch import Batch
    from hbase_store.emissions import EmissionLog, EmissionRow
    from hbase_store.loading import Loading
    from hbase_store.preview import Preview
    from hbase_store.rows import CatalogChange, PushMark, Sn, SnRow, StreamMove, StreamPosition
    from hbase_store.snapshot import NAMED, Rows, Snapshot
    from hbase_store.store import Store
    from hbase_store.store import open_store as open
    from hbase_store.streams import StreamColumns

_PLACES = {
    "Batch": "batch",
    "CatalogChange": "rows",
    "EmissionLog": "emissions",
    "EmissionRow": "emissions",
    "Loading": "loading",
    "NAMED": "snapshot",
    "Preview": "preview",
    "PushMark": "rows",
    "Rows": "snapshot",
    "Sn": "rows",
    "SnRow": "rows",
    "Snapshot": "snapshot",
    "Store": "store",
    "StreamColumns": "streams",
    "StreamMove": "rows",
    "StreamPosition": "rows",
    "open": "store",
}

__all__ = [
    "NAMED",
    "Batch",
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
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_PLACES[name]}")
    value = getattr(module, "open_store" if name == "open" else name)
    globals()[name] = value
    return value
