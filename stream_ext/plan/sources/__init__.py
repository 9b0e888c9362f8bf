"""Sources: which parts of a query an attached triple store (a *source*) is asked for, and what is sent to it.

A part that only the source can answer is *exclusive* to it and is sent as it is written, if all engines mean it alike.
The verb is *send*. It imports the tree of a plan, and of a source nothing but its interface."""
