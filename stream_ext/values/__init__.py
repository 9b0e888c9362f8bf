"""Values: what ids stand for: expressions compiled over columns, functions, comparison, order, the terms a query makes.

Its verb is *compute*. It imports language, rows and what is below them. A new function goes into `functions`."""
