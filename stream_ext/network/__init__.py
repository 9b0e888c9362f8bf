"""The network of a query: its plan as connected operators, stepped with changes.

Its verbs are *build* and *step*. `inputs` is what a query reads: windows, a snapshot, the ids of its constants. It
imports plans, values, windows, remote and rows. A new operator goes into `operators`."""
