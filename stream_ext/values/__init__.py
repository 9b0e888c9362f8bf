"""Evaluating expressions over columns of ids: compiled expressions, functions, typed values of terms, their comparison
and order, the terms that a query makes.

Its verb is *compute*. It imports language, rows and what is below them. A new function goes into `functions`."""
