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
    "Batch": "hbase_store.batch",
    "CatalogChange": "hbase_store.rows",
    "EmissionLog": "hbase_store.emissions",
    "EmissionRow": "hbase_store.emissions",
    "Loading": "hbase_store.loading",
    "NAMED": "hbase_store.snapshot",
    "Preview": "hbase_store.preview",
    "PushMark": "hbase_store.rows",
    "Rows": "hbase_store.snapshot",
    "Sn": "hbase_store.rows",
    "SnRow": "hbase_store.rows",
    "Snapshot": "hbase_store.snapshot",
    "Store": "hbase_store.store",
    "StreamColumns": "hbase_store.streams",
    "StreamMove": "hbase_store.rows",
    "StreamPosition": "hbase_store.rows",
    "open": "hbase_store.store",
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
    module = import_module(_PLACES[name])
    value = getattr(module, "open_store" if name == "open" else name)
    globals()[name] = value
    return value
