"""Sizes at which a query is planned otherwise, for it has very many parts."""

from __future__ import annotations

#: Solutions with more columns than `WIDE` are not passed from stage to stage for each part: the other parts are
#: evaluated for their own variables, `RUN` of them at once, and joined, if they have more than `SMALL` nodes. No query
#: that a person writes has so many columns.
WIDE, RUN, SMALL = 256, 64, 8
#: The greatest numbers of parts that are merged at once, and of variables that are assigned one by one.
MERGED_MAX, ASSIGNED_MAX = 64, 64
#: The greatest number of parts over windows whose join order is found while they run.
MANY_MAX = 64
#: Parts of a registered query with so many times as many rows cost nearly the same: their order is that of others.
NEAR = 1.3
#: The greatest number of rows of the store that are copied, to be merged with the rows of a window.
COPIED_ROWS_MAX = 1e6
