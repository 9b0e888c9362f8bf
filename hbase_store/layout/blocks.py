"""Blocks: at most 8,192 edges of one predicate, as a small compressed adjacency list.

Edges are sorted by (subject, object[, graph]). A block holds each subject once, how many edges it has, and the
objects; of named graphs all graphs together, with a graph column beside. Whether the edges were inserted or
deleted holds for the whole block. Layout: predicate (8 bytes), then the columns subjects, counts, objects[,
graphs], as `hbase_store.layout.columns` writes them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hbase_store.arrays import Columns, Ids, Mask, Offsets, group_rows
from hbase_store.layout.columns import pack_column, unpack_column

BLOCK_ROWS = 8192
_PREDICATE = struct.Struct("<Q")
_ONE = np.ones(1, np.uint64)


@dataclass(frozen=True, slots=True)
class Block:
    """`columns` are subjects, objects and, if `named`, graphs; distinct rows in lexicographic order."""

    named: bool
    predicate: int
    inserted: bool
    columns: Columns


def blocks_of(named: bool, predicate: int, inserted: bool, columns: Columns) -> Iterator[Block]:
    """Sorted rows, cut into blocks."""
    for start in range(0, len(columns[0]), BLOCK_ROWS):
        yield Block(named, predicate, inserted, tuple(column[start : start + BLOCK_ROWS] for column in columns))


def by_predicate(s: Ids, p: Ids, o: Ids, g: Ids) -> Iterator[tuple[bool, int, Columns, Offsets | slice | Mask]]:
    """(named, predicate, its columns (s, o[, g]), which of the rows these are), in the order in which rows came."""
    for predicate, rows in group_rows(p):
        graphs = g[rows]
        named = graphs != 0
        if not named.any():
            yield False, predicate, (s[rows], o[rows]), rows
        elif named.all():
            yield True, predicate, (s[rows], o[rows], graphs), rows
        else:
            places = np.arange(len(p))[rows]
            for is_named, there in ((False, places[~named]), (True, places[named])):
                columns = (s[there], o[there], g[there]) if is_named else (s[there], o[there])
                yield is_named, predicate, columns, there


def pack_block(block: Block) -> bytes:
    parts = (*_counted(block.columns[0]), *block.columns[1:])
    return _PREDICATE.pack(block.predicate) + b"".join(map(pack_column, parts))


def _counted(subjects: Ids) -> tuple[Ids, Ids]:
    """Each subject once, and how often it is there."""
    if len(subjects) == 1:  # as in most updates
        return subjects, _ONE
    starts = np.flatnonzero(np.concatenate(([True], subjects[1:] != subjects[:-1])))
    return subjects[starts], np.diff(starts, append=len(subjects)).astype(np.uint64)


def unpack_block(data: memoryview, named: bool, inserted: bool) -> Block:
    """A ValueError if `data` is no block."""
    if len(data) < _PREDICATE.size:
        raise ValueError("a block is cut off")
    (predicate,) = _PREDICATE.unpack_from(data)
    subjects, at = unpack_column(data, _PREDICATE.size)
    counts, at = unpack_column(data, at)
    objects, at = unpack_column(data, at)
    if len(counts) != len(subjects) or len(objects) > BLOCK_ROWS or int(counts.sum()) != len(objects):
        raise ValueError("the columns of a block do not fit each other")
    columns: Columns = (np.repeat(subjects, counts.astype(np.int64)), objects)
    if named:
        graphs, at = unpack_column(data, at)
        if len(graphs) != len(objects):
            raise ValueError("the columns of a block do not fit each other")
        columns = (*columns, graphs)
    return Block(named, predicate, inserted, columns)
