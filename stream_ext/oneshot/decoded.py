"""Rows as texts, some at a time: what answers are written from."""

from __future__ import annotations

from typing import NamedTuple


class Decoded(NamedTuple):
    """Some rows of an answer: each distinct text once, and for each column the places of its texts."""

    texts: list[bytes | None]  # None: unbound
    columns: list[list[int]]
    rows: int  # the number of rows: there may be no column
