"""Writing: batches and bulk loads become snapshots; later, folding, merging and collection.

Its verb is *commit*. It imports all rooms of the store but those that open one."""
