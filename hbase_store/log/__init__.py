"""The log: the head, the rows of snapshots, the position of each stream, and the emissions of queries.

Its verb is *read in order*. It imports layouts and the key-value protocol."""
