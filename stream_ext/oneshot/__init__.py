"""One-shot questions: a text and a snapshot in, an answer out; EXPLAIN, DESCRIBE, and emissions made again.

Its verb is *evaluate*. It imports networks, emissions and what is below them."""
