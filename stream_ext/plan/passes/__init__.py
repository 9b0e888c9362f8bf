"""Passes: plain functions from a tree to a tree, a module each, called by `pipeline` in order.

    algebra  --normalise-->  logic  --lift-->  OPTIONAL, MINUS and BIND behind the joins  --occurrences-->  ...

`refuse` comes first and rejects what the engine does not run. The verb is *rewrite*. It imports the tree, its
properties, and what is sent to sources."""
