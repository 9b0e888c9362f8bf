"""Compressed bodies, and how much of anything is taken: each limit at its edge."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from endpoint.http.body import Bodies, unpack
from stream_ext.errors import Overload, TooLarge
from tests.endpoint.live import NEAR, NT, TAXI_IN_ZONE, Live, live

PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstandard.compress,
}


@pytest.mark.parametrize("encoding", PACK)
def test_what_does_not_shrink_counts_as_a_whole(encoding: str) -> None:
    """Random bytes come out of every step as many as went in, so no single step is over the limit."""
    body = random.Random(1).randbytes(300_000)
    packed = PACK[encoding](body)
    assert unpack(packed, encoding, 300_000) == body
    with pytest.raises(TooLarge, match="over 299999 bytes after decompression"):
        unpack(packed, encoding, 299_999)


@pytest.mark.parametrize("encoding", PACK)
@pytest.mark.parametrize("size", [1, 5_000])
def test_members_count_together(encoding: str, size: int) -> None:
    draw = random.Random(2)
    parts = [draw.randbytes(size) for _ in range(300)]
    packed = b"".join(PACK[encoding](part) for part in parts)
    assert unpack(packed, encoding, 300 * size) == b"".join(parts)
    with pytest.raises(TooLarge):
        unpack(packed, encoding, 300 * size - 1)


def test_packings_inside_one_another_are_each_bounded() -> None:
    bomb = gzip.compress(gzip.compress(b"0" * 50_000_000))
    with pytest.raises(TooLarge):
        unpack(bomb, "gzip, gzip", 1_000_000)


@pytest.mark.parametrize("encoding", PACK)
def test_a_push_may_come_packed(server: Live, encoding: str) -> None:
    server.http.put("/streams/packed").raise_for_status()
    answer = server.http.post(
        "/streams/packed?timestamp=1",
        content=PACK[encoding](TAXI_IN_ZONE.encode()),
        headers=NT | {"content-encoding": encoding},
    )
    assert (answer.status_code, answer.json()["accepted"]) == (202, 1)
    too_large = PACK[encoding](b"\n" * 1_100_000)
    answer = server.http.post(
        "/streams/packed?timestamp=1", content=too_large, headers=NT | {"content-encoding": encoding}
    )
    assert (answer.status_code, "after decompression" in answer.text) == (413, True)


def test_one_query_more_than_are_allowed_is_refused(tmp_path: Path) -> None:
    with live(tmp_path) as server:
        server.service.limits = replace(server.service.limits, queries=2)
        for name in ("one", "two"):
            assert server.register(NEAR.replace("near", name)).status_code == 201
        refused = server.register(NEAR.replace("near", "three"))
        assert (refused.status_code, "2" in refused.text) == (413, True)
        assert server.register(NEAR.replace("near", "two")).status_code == 200  # it is there
        server.http.delete("/queries/one").raise_for_status()
        assert server.register(NEAR.replace("near", "three")).status_code == 201


def test_bodies_together_are_bounded_and_small_ones_have_as_much_room_again() -> None:
    bodies, small, large = Bodies(4 << 20), 1 << 20, 3 << 20
    bodies.hold("a", 64 << 20)  # one alone is let in, whatever it takes
    with pytest.raises(Overload):
        bodies.hold("b", large)
    bodies.release("a")
    bodies.hold("a", large)
    for number in range(5):
        bodies.hold(number, small)
    with pytest.raises(Overload):
        bodies.hold(5, small)
    with pytest.raises(Overload):
        bodies.hold("b", large)
    assert (bodies.nbytes, bodies.refused) == (8 << 20, 3)
    bodies.hold(4, 10)  # it may shrink, too
    bodies.hold(5, small - 10)
    for one in ("a", *range(6)):
        bodies.release(one)
    assert bodies.nbytes == 0
