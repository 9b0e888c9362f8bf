"""Slabs, slices and the small rows: their bytes, and back."""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hbase_store.backends.keyvalue import CALL_BYTES_MAX
from hbase_store.errors import BadRow, Corrupt, LayoutError
from hbase_store.layout.blocks import Block
from hbase_store.layout.rows import (
    CatalogChange,
    PushMark,
    SnRow,
    StreamMove,
    StreamPlace,
    pack_row,
    slab_key,
    slice_key,
    sn_key,
    unpack_row,
)
from hbase_store.layout.slab import (
    BLOCK,
    TERM_BYTES_MAX,
    Slab,
    TermsChunk,
    check_lengths,
    chunks_of,
    pack_slab,
    pack_slice,
    unpack_slab,
)
from hbase_store.layout.stream_columns import (
    PART_ROWS,
    RecentStreams,
    StreamColumns,
    StreamPart,
    graphs_of,
    merge,
    pack_part,
    split,
)
from hbase_store.log.head import Head, Range, pack_head

KEY = slab_key(1, 2, 0)


def ids(*values: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(values, np.uint64)


def columns(
    stream: int,
    elements: list[tuple[int, int, int]],
    triples: list[tuple[int, int, int, int]],
    graphs: list[int] | None = None,
) -> StreamColumns:
    time, graph, push = zip(*elements, strict=True) if elements else ((), (), ())
    element, s, p, o = zip(*triples, strict=True) if triples else ((), (), (), ())
    return StreamColumns(
        stream,
        np.array(time, np.int64),
        ids(*graph),
        np.array(push, np.int32),
        np.array(element, np.int32),
        ids(*s),
        ids(*p),
        ids(*o),
        None if graphs is None else ids(*graphs),
    )


def same(one: StreamColumns, other: StreamColumns) -> bool:
    names = ("time", "graph", "push", "element", "s", "p", "o")
    if (one.g is None) != (other.g is None) or one.graphs().tolist() != other.graphs().tolist():
        return False
    return one.stream == other.stream and all(getattr(one, n).tolist() == getattr(other, n).tolist() for n in names)


def back(pieces: list[bytes]) -> Slab:
    return unpack_slab("slab", [(slab_key(1, 2, i), piece) for i, piece in enumerate(pieces)])


@given(st.lists(st.binary()))
def test_terms_come_back(texts: list[bytes]) -> None:
    found = back(pack_slab(Slab(list(chunks_of(77, texts)))))
    assert [text for chunk in found.terms for text in chunk.texts()] == texts
    assert all(chunk.first == 77 for chunk in found.terms[:1])


def test_many_terms_are_cut_into_chunks_of_consecutive_ids() -> None:
    texts = [b"x" * 700_000, b"y" * 700_000, *(b"%d" % i for i in range(70_000)), b"z" * 3_000_000]
    chunks = list(chunks_of(10, texts))
    assert len(chunks) == 4
    assert [chunk.first for chunk in chunks][1:] == [chunk.first + len(chunk.offsets) - 1 for chunk in chunks][:-1]
    pieces = pack_slab(Slab(chunks))
    assert max(map(len, pieces)) <= CALL_BYTES_MAX
    assert [text for chunk in back(pieces).terms for text in chunk.texts()] == texts


def test_the_longest_term_fits_and_a_longer_one_is_refused() -> None:
    longest = b"<" + b"a" * (TERM_BYTES_MAX - 2) + b">"
    check_lengths([longest])
    (piece,) = pack_slab(Slab(list(chunks_of(1, [longest]))))
    assert len(piece) <= CALL_BYTES_MAX
    with pytest.raises(BadRow, match="it may have at most"):
        check_lengths([longest + b"a"])


def test_the_widest_record_of_a_stream_fits_into_a_piece() -> None:
    rng = np.random.default_rng(1)
    wide = [rng.integers(0, 1 << 63, PART_ROWS, dtype=np.uint64) for _ in range(7)]
    ordinals = [rng.integers(0, 1 << 31, PART_ROWS).astype(np.int32) for _ in range(2)]
    of_elements = (wide[0], wide[1].view(np.int64), wide[2], ordinals[0])
    part = StreamPart(1, 1 << 31, 1 << 31, *of_elements, wide[3], ordinals[1], *wide[4:7], g=wide[0])
    (body,) = pack_part(part)
    (piece,) = pack_slice(part)
    assert len(body) < len(piece) <= CALL_BYTES_MAX


ELEMENTS = st.lists(st.tuples(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(0, 9), st.integers(0, 5)), max_size=8)


@given(st.data(), ELEMENTS)
def test_a_stream_comes_back_from_slab_and_slice(data: st.DataObject, elements: list[tuple[int, int, int]]) -> None:
    places = st.integers(0, len(elements) - 1) if elements else st.nothing()
    triples = data.draw(st.lists(st.tuples(places, *[st.integers(1, 1 << 62)] * 3)) if elements else st.just([]))
    absorbed = data.draw(st.none() | st.lists(st.booleans(), min_size=len(triples), max_size=len(triples)))
    graphs = data.draw(st.none() | st.lists(st.integers(0, 9), min_size=len(triples), max_size=len(triples)))
    whole = columns(4, elements, triples, graphs)
    in_slab, in_slice = split(whole, None if absorbed is None else np.array(absorbed, bool))
    read = [
        *(back(pack_slab(Slab(streams={4: [in_slab]}))).streams[4] if in_slab else []),
        *(back(pack_slice(in_slice)).streams[4] if in_slice else []),
    ]
    assert same(merge(read), whole)
    assert [g for part in graphs_of(read) for g in part.tolist()] == [
        (whole.graph[whole.element] if graphs is None else ids(*graphs))[row] for part in read for row in part.rows
    ]
    assert sum(len(part.rows) for part in read) == len(triples), "a triple is written twice"
    assert sum(len(part.rows) for part in ([in_slab] if in_slab else [])) == sum(absorbed or [])


def test_a_large_stream_is_cut_into_records() -> None:
    n = 2 * PART_ROWS + 5
    number = np.arange(n)
    whole = StreamColumns(
        1,
        number * 10,
        np.zeros(n, np.uint64),
        number.astype(np.int32),
        number.astype(np.int32),
        *[number.astype(np.uint64)] * 3,
    )
    _, part = split(whole, None)
    assert part is not None
    read = back(pack_slice(part)).streams[1]
    assert len(read) == 3
    assert same(merge(read), whole)
    with pytest.raises(ValueError, match="missing"):
        merge(read[:2])


def test_parts_of_one_stream_have_graphs_of_their_own_or_none_has() -> None:
    whole = columns(1, [(1, 0, 0)], [(0, 1, 2, 3), (0, 4, 5, 6)], [7, 0])
    one, other = split(whole, np.array([True, False]))
    assert one is not None
    assert other is not None
    with pytest.raises(ValueError, match="graphs of their own"):
        merge([one, replace(other, g=None)])


def test_columns_of_a_stream_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        columns(1, [(1, 0, 0)], [(0, 1, 2, 3)], [])
    with pytest.raises(ValueError, match="differ in length"):
        StreamColumns(
            1, np.zeros(1, np.int64), ids(), np.zeros(0, np.int32), np.zeros(0, np.int32), ids(), ids(), ids()
        )


def test_recent_streams_forget_the_oldest_but_never_the_newest() -> None:
    recent = RecentStreams(100)
    small, large = columns(1, [(1, 0, 0)], []), columns(2, [(1, 0, 0)] * 20, [])
    recent.put(1, small)
    recent.put(2, large)
    assert recent.get(1, 1) is None
    assert recent.get(2, 2) is large


def test_recent_streams_forget_what_no_stream_retains() -> None:
    recent = RecentStreams(1 << 20)
    every = {(sn, stream): columns(stream, [(1, 0, 0)], []) for sn in range(1, 9) for stream in (1, 2)}
    for (sn, _), each in every.items():
        recent.put(sn, each)
    recent.drop_below({1: 4, 2: 7}.__getitem__)
    left = {key for key in every if recent.get(*key) is not None}
    assert left == {(sn, 1) for sn in range(4, 9)} | {(sn, 2) for sn in (7, 8)}
    assert recent.nbytes == sum(every[key].nbytes for key in left)


def golden_slab() -> Slab:
    part = split(columns(6, [(1000, 0, 0)], [(0, 1, 2, 3)]), np.array([True]))[0]
    assert part is not None
    chunk = TermsChunk(5, np.array([0, 3, 8], np.int64), b"<a>" + b'"b"@x')
    return Slab([chunk], [Block(False, 2, False, (ids(1), ids(3)))], {6: [part]})


def test_the_layout_of_a_slab_does_not_change() -> None:
    (piece,) = pack_slab(golden_slab())
    one = "00 00 0000 01000000 {:02x}00000000000000"
    expected = bytes.fromhex(
        b"RS".hex()
        + "0100"
        + "01 00 0000 22000000 0500000000000000"  # terms from 5 on
        + "00 01 0000 02000000 0300000000000000 00 02"  # lengths
        + (b"<a>" + b'"b"@x').hex()
        + "03 00 0000 a0000000 0600000000000000 01000000 01000000"  # stream 6, an element, a triple
        + one.format(0)
        + "00 00 0000 01000000 e803000000000080"  # time 1000
        + "".join(map(one.format, (0, 0, 0, 0, 1, 2, 3)))
        + "02 02 0000 38000000 0200000000000000"  # a block of deletions
        + "".join(map(one.format, (1, 1, 3)))
    )
    assert piece == expected + zlib.crc32(expected).to_bytes(4, "little")


def test_triples_with_graphs_of_their_own_are_a_record_of_another_kind() -> None:
    """So that a program of before there were such elements refuses the slab, instead of mistaking their graphs."""
    _, part = split(columns(6, [(1000, 5, 0)], [(0, 1, 2, 3), (0, 1, 2, 3)], [5, 0]), None)
    assert part is not None
    (piece,) = pack_slice(part)
    one, two = "00 00 0000 01000000 {:02x}00000000000000", "00 00 0000 02000000 {:02x}00000000000000"
    expected = bytes.fromhex(
        b"RS".hex()
        + "0100"
        + "04 00 0000 b4000000 0600000000000000 01000000 02000000"  # stream 6, an element, two triples
        + one.format(0)
        + "00 00 0000 01000000 e803000000000080"  # time 1000
        + "".join(map(one.format, (5, 0)))
        + "00 01 0000 02000000 0000000000000000 00 01"  # the triples 0 and 1
        + "".join(map(two.format, (0, 1, 2, 3)))
        + "00 01 0000 02000000 0000000000000000 05 00"  # the graphs
    )
    assert piece == expected + zlib.crc32(expected).to_bytes(4, "little")
    assert same(merge(back([piece]).streams[6]), columns(6, [(1000, 5, 0)], [(0, 1, 2, 3)] * 2, [5, 0]))


def test_only_the_records_asked_for_are_read() -> None:
    slab = unpack_slab("slab", [(KEY, pack_slab(golden_slab())[0])], (BLOCK,))
    assert (len(slab.terms), len(slab.blocks), len(slab.streams)) == (0, 1, 0)


def test_the_layout_of_the_small_rows_does_not_change() -> None:
    marks = [PushMark(0, 5, 7, 4, True)]
    row = SnRow(
        sn=3,
        epoch=2,
        published_ms=1000,
        moves=[
            StreamMove(6, 1, 5, None, 4, marks, {"a": 7}, 2, 1, True, 7, True, [(0, 4)], 5, 9, b"s"),
        ],
        catalog=[CatalogChange("query", 1, b"x"), CatalogChange("stream", 6, None)],
        slab_pieces=1,
        slab_bytes=99,
        places=[StreamPlace(6, True, 0, 8)],
        load_run=5,
        whole_pieces=2,
        terms_pieces=3,
    )
    layout = (
        "524e0100 9b 03 02 cd03e8"
        "91 dc0010 06 01 05 c0 04 91 95 00 05 07 04 c3 81 a161 07 02 01 c3 07 c3 91 92 00 04 05 09 c40173"
        "92 93 a57175657279 01 c40178 93 a673747265616d 06 c0"
        "01 63 91 94 06 c3 00 08 05 02 03"
    )
    content = bytes.fromhex(layout)
    older = bytes.fromhex(layout.replace("91 dc0010", "91 9c").replace("c3 91 92 00 04 05 09 c40173", "c3"))
    of_before = unpack_row(older + zlib.crc32(older).to_bytes(4, "little"), sn_key(2, 3))
    assert of_before.moves[0].openings is None, "rows of before there were openings are read, too"
    assert pack_row(row) == content + zlib.crc32(content).to_bytes(4, "little")
    assert unpack_row(pack_row(row), sn_key(2, 3)) == row
    assert sn_key(2, 3) == bytes.fromhex("0000000000000002 0000000000000003")
    assert slab_key(2, 3, 1) == sn_key(2, 3) + bytes.fromhex("00000001")
    assert slice_key(6, 2, 3, 1) == bytes.fromhex("0000000000000006") + slab_key(2, 3, 1)
    head = bytes.fromhex("52480100 95 02 c408 0001020304050607 03 92 93 01 01 01 93 02 02 03 07")
    packed = pack_head(Head(2, bytes(range(8)), 3, (Range(1, 1, 1), Range(2, 2, 3)), 7))
    assert packed == head + zlib.crc32(head).to_bytes(4, "little")


@given(st.data())
def test_a_damaged_byte_anywhere_is_noticed_and_the_row_is_named(data: st.DataObject) -> None:
    (piece,) = pack_slab(golden_slab())
    at = data.draw(st.integers(0, len(piece) - 1))
    damaged = piece[:at] + bytes([piece[at] ^ data.draw(st.integers(1, 255))]) + piece[at + 1 :]
    with pytest.raises(Corrupt, match=rf"{KEY.hex()} of table slab is damaged"):
        unpack_slab("slab", [(KEY, damaged)])


def test_a_missing_row_is_named() -> None:
    with pytest.raises(Corrupt, match=rf"{KEY.hex()} is missing from table slab"):
        unpack_slab("slab", [(KEY, None)])


def sealed(content: bytes) -> bytes:
    return content + zlib.crc32(content).to_bytes(4, "little")


def test_a_row_of_another_kind_or_version_is_refused() -> None:
    with pytest.raises(Corrupt, match="kind"):
        unpack_slab("slab", [(KEY, sealed(b"XX\1\0"))])
    with pytest.raises(LayoutError, match="version 9"):
        unpack_slab("slab", [(KEY, sealed(b"RS\x09\0"))])
    with pytest.raises(Corrupt, match="sn is damaged"):
        unpack_row(sealed(b"RN\1\0\xc1"), sn_key(1, 1))


@pytest.mark.parametrize(
    "record",
    ["01", "0100000009000000", "09000000 00000000", "0100000000000000", "0200000000000000", "0300000000000000"],
)
def test_a_record_that_is_none_is_refused(record: str) -> None:
    with pytest.raises(Corrupt, match="table slab"):
        unpack_slab("slab", [(KEY, sealed(b"RS\1\0" + bytes.fromhex(record)))])
