"""Writing: batches and bulk loads become snapshots; later, folding, merging and collection.

`stream_ext/writer` decides what is written, and in which order. Its
verb is *commit*. It imports all rooms of the store but those that open one."""
