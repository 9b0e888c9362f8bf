"""Writing: what becomes a snapshot, and what is done to it later: batches, bulk loads, folding, collection.

Its verb is *commit*. It imports all rooms of the store but those that open one."""
