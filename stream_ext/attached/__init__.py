"""Attached stores: what registered queries need of a source is held, as held edges of our own store, and kept fresh.

Its verb is *hold*. It imports the writer, whose snapshots it fills, the catalog and the plans of queries; it knows of a
source nothing but its interface (`stream_ext.remote.source`)."""
