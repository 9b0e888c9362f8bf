"""Attached stores, the engine's side: copies of what registered queries need of another triple store (a *source*).

The copied triples are *held*: they lie in our own store, marked, beside our own triples, and only registered queries
read them. They are compared with the source from time to time. Its verb is *hold*. It imports the writer, whose
snapshots it fills, the catalog and the plans of queries; it knows of a source nothing but its interface
(`stream_ext.remote.source`)."""
