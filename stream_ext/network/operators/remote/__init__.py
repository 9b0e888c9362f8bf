"""SERVICE and attached stores: the query that is sent is written here, and its answers are joined with the solutions.

Answers are remembered for as long as rows need them. It imports `stream_ext.remote`, which sends the query."""
