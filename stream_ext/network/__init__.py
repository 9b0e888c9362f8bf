"""The network of a query: its plan built as operators and wired, stepped with what changed.

Its verbs are *build* and *step*. It imports plans, values, windows, remote and rows. A new operator goes into
`operators`."""
