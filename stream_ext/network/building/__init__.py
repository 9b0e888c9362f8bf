"""Building: logic becomes a network of operators.

Each part extends the solutions so far: its triple patterns look up the values that these have bound. A part whose
meaning that would change (`takes`) is built from the start, and joined as a whole.

`builder` goes through the parts of a query; `conjunctions` orders and joins those of a group, `scans`, `conditions` and
`selects` build their kinds; `wiring` has the plan that grows."""
