"""What the status says of a shard is true now, not when its worker last reported."""

from __future__ import annotations

import socket
from pathlib import Path

from stream_ext.runners.spark import wire
from stream_ext.runners.spark.seat_connection import SeatConnection, Worker
from stream_ext.runners.spark.shard_on_spark import ShardOnSpark
from stream_ext.runners.underway import StepWatch


def test_a_worker_with_nothing_to_step_uses_no_core(tmp_path: Path) -> None:
    shard = ShardOnSpark(0, 7)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        seat = SeatConnection(ours, 1, Worker("host", 5), StepWatch(tmp_path / "underway"), 0, (0, 1))
        shard.seat_at(seat, 7, 0)
        seat.sent_head = seat.done = 7
        shard.figures.report(wire.Loads(query_ms={1: 250.0}, busy_s=0.25, passed_s=1.0), 1_000)
        assert shard.status(7, 6_000)["core_share"] == 0.25
        assert shard.status(7, 6_001)["core_share"] == 0.0  # it reports only while it steps
        seat.sent_head = 8
        assert shard.status(8, 60_000)["core_share"] == 0.25  # a long step
        seat.done, shard.seat, shard.lives_in = 8, None, None
        assert shard.status(8, 2_000)["core_share"] == 0.0  # it has died
