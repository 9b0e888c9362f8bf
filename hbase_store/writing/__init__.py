"""Writing: batches and bulk loads become snapshots; later, folding, merging and collection.

`stream_ext/writer` decides what is written, and in which order. Its verb is *commit*. It imports all other rooms of the
store, and not the modules beside them (`store`, `opening`)."""
