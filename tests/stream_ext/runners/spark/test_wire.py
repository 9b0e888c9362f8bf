"""What a shard says comes over the wire as it was said."""

from __future__ import annotations

import msgspec
import numpy as np

from stream_ext import frames
from stream_ext.runners.spark import wire
from stream_ext.windows.part import ManyEmissions, Part, WindowBounds
from stream_ext.windows.query_state import LastEvaluation, QueryState


def ids(*values: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(values, np.uint64)


def test_parts_of_one_query_and_of_many_come_over_as_they_are() -> None:
    windows, at = [WindowBounds("s", 0, 10, "[)")], LastEvaluation(7, 1, 0, 10)
    state = QueryState(None, at, t0=0, after=10, last=10, begins=[10], sn=7)
    joined = {5: QueryState(registered=3, gap=True), 9: QueryState()}
    emitted: list[Part] = [
        Part.of_one(2, 7, 0, 10, windows, [ids(1, 2)], None, 0, None, state, True, [b'"t"'], False, None),
        Part(
            ids(5, 9, 1 << 40), 7, 0, 10, windows, ids(0, 2, 2), [ids(3, 0, 4), ids(1, 1, 1)], None, True, 0, None,
            state, joined, [b'"x"'], at, is_shared=True,
        ),
        Part(ids(5, 9), 7, 1, 20, [], ids(), [], True, False, 12, 15, state, evaluated=False, is_shared=True),
    ]  # fmt: skip
    emitted.append(Part.of_one(2, 7, 5, 14, windows, [ids(1, 2, 2)], None, 0, None, state, True, before=at))
    emitted[-1].many = ManyEmissions(
        [2, 5], [12, 14], [1, 2], [3, 4], [0, 12], [0, 1], [0, 3], [1, 3], [[2, 4]], [[12, 14]]
    )
    codec = wire.Codec("stream_ext.continuous.shard:open_shard")
    (sent,) = codec.parts_frames(7, emitted)
    (size,) = frames.LENGTH.unpack_from(sent)
    message = wire.from_seat.decode(sent[frames.LENGTH.size : frames.LENGTH.size + size])
    assert isinstance(message, wire.Parts)
    assert list(map(listed, codec.parts(message.parts))) == list(map(listed, emitted))


def listed(part: Part) -> tuple[object, ...]:
    values = {name: getattr(part, name) for name in part.__struct_fields__}
    plain = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}
    return type(part), [column.tolist() for column in part.columns], msgspec.to_builtins({**plain, "columns": []})
