"""Operators that look at each row by itself: extend, filter, project, union. They remember nothing."""
