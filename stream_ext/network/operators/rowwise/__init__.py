"""Operators that work row by row, without state: extend, filter, project, union."""
