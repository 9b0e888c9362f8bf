"""Operators that read windows: triple patterns over what a window holds, with times and occurrences."""
