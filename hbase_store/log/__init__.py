"""The log: the head, the rows of snapshots, what each stream had come to, and the emissions of queries.

Its verb is *read in order*. It imports layouts and the key-value protocol."""
