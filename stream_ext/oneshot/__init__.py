"""One-shot queries: from a text and a snapshot to an answer; EXPLAIN, DESCRIBE, and emissions evaluated again.

Its verb is *evaluate*. It imports networks, emissions and the rooms below them."""
