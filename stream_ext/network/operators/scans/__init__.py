"""Operators that read windows: triple patterns over the content of a window, with times and occurrences."""
