"""The messages between the bell and a seat: first the token, then framed messages over one socket.

A frame is its length (4 bytes) and a message in msgpack, tagged with its name. Columns of ids travel inside
it as raw little-endian uint64, each in 5 microseconds (an Arrow stream costs 40 a part, and its schema says
nothing that the plan does not)."""

from __future__ import annotations

import importlib
import socket
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import msgspec
import numpy as np

from stream_ext.continuous.catching_up.fair_share import ShareLimit
from stream_ext.continuous.query_budget import Budget
from stream_ext.emissions.placement import ShardPlan
from stream_ext.frames import FRAME_BYTES_MAX, exactly, framed, receive
from stream_ext.remote.allowed_urls import AllowedUrls
from stream_ext.runners.spark import tls

if TYPE_CHECKING:
    from stream_ext.continuous.shard import Shard

#: A connection begins with the token, in so many bytes: nothing of a stranger is ever decoded.
TOKEN_BYTES = 64
#: The first frame after it names the states of a worker.
HELLO_BYTES_MAX = 1 << 16
#: A machine that has not acknowledged anything for so long is not there any more.
_VANISHED_S = 30
#: Parts travel in frames of about this size, so that neither half holds a second copy of much more.
PARTS_BYTES = 8 << 20


class Garbled(ConnectionError):
    """The received bytes are not a message, or a message that is not expected now."""


# ---- sent by a seat (or the planner) ---------------------------------------------------------------------------


class Stamp(msgspec.Struct, frozen=True):
    """A state that this worker process has: clean, of this shard of this plan, and as it was after `sn`."""

    service: str
    store_url: str
    sn: int
    plan: int = 1
    shard: int = 0


class Hello(msgspec.Struct, tag=True, frozen=True):
    """A task has started: this seat of this Spark epoch. `machine`: where its number means something."""

    seat: int
    epoch: int
    host: str
    pid: int
    stamps: list[Stamp]
    machine: str = ""


class Await(msgspec.Struct, tag=True, frozen=True):
    """The planner of micro-batches waits for work. The answer is `HeadMoved`, as soon as there is work."""


class Ready(msgspec.Struct, tag=True, frozen=True):
    """The state is as it was after `sn`; the steps may begin."""

    sn: int
    built: bool


class Parts(msgspec.Struct, tag=True, frozen=True):
    sn: int
    parts: msgspec.Raw


class Done(msgspec.Struct, tag=True, frozen=True):
    """All parts of `sn` have been sent; its step took so long."""

    sn: int
    took_ms: float = 0.0


class IsStepping(msgspec.Struct, tag=True, frozen=True):
    """What is being stepped from now on, of a worker that cannot write into our file; without queries: of none, or of
    all."""

    sn: int
    queries: list[int]


class Rests(msgspec.Struct, tag=True, frozen=True):
    """Nothing is being stepped, of such a worker."""


class Piece(msgspec.Struct, tag=True, frozen=True):
    """All parts of a piece of catching up have been sent; it took so long. `more`: whether there is more to catch up
    with."""

    more: bool
    took_ms: float = 0.0


class Loads(msgspec.Struct, tag=True, frozen=True):
    """What the steps since the last report cost: CPU milliseconds of each query, or of the first of several that share
    a network; all seconds of CPU; and the seconds that passed. `state_bytes`: of each network, by its first query;
    None: they were not all measured again since."""

    query_ms: dict[int, float]
    busy_s: float
    passed_s: float
    state_bytes: dict[int, int] | None = None


class Fault(msgspec.Struct, tag=True, frozen=True):
    """One query, which runs since that snapshot, cannot be stepped; the others continue."""

    query: int
    why: str
    since: int = 0


class Mended(msgspec.Struct, tag=True, frozen=True):
    """A query whose fault was reported is stepped again, or was dropped."""

    query: int


class BehindReport(msgspec.Struct, tag=True, frozen=True):
    """The queries that are behind the others, and the snapshot that each of them has reached."""

    queries: dict[int, int]


class Trouble(msgspec.Struct, tag=True, frozen=True):
    """The seat cannot continue at all, and ends."""

    sn: int
    why: str


class Bye(msgspec.Struct, tag=True, frozen=True):
    """The seat was asked to end, and has sent everything."""

    sn: int
    steps: int


# ---- sent by the bell ------------------------------------------------------------------------------------------


class Welcome(msgspec.Struct, tag=True, frozen=True):
    """Continue this shard after `position`: from the state of your stamp, or (with `states`) from a state that you
    build there.
    Leave out the `suspended` queries, and write what you step into the file `underway`. If you cannot, because it is on
    another machine, send it, and end yourself if a step or a build takes longer than its limit: nobody else can.
    `store_place`: where the store must be found (`hbase_store.place_of_files`). `share`: what one network may take of
    the time while pushes wait."""

    attempt: int
    service: str
    store_url: str
    base: str
    allowed_urls: AllowedUrls
    budget: Budget
    factory: str
    position: int
    states: dict[int, msgspec.Raw] | None
    suspended: list[int]
    underway: str
    plan: ShardPlan = ShardPlan()
    shard: int = 0
    store_place: str = ""
    step_limit_s: float = 0.0
    build_limit_s: float = 0.0
    share: ShareLimit = ShareLimit()


class LeftOut(msgspec.Struct, tag=True, frozen=True):
    """From the next step on, leave out these queries and no others."""

    queries: list[int]


class Subscribed(msgspec.Struct, tag=True, frozen=True):
    """These queries have a subscriber now, and those have none any more: the rows of subscribed ones are sent as JSON,
    too."""

    come: list[int]
    gone: list[int]


class Head(msgspec.Struct, tag=True, frozen=True):
    """Everything up to `sn` is published: step it. Pushes have waited for `lag_ms`."""

    sn: int
    lag_ms: int = 0


class CatchUp(msgspec.Struct, tag=True, frozen=True):
    """Evaluate a piece of what the queries that are behind have missed. Queries in `states` continue from these states,
    whatever their states in this worker process are."""

    states: dict[int, msgspec.Raw]


class End(msgspec.Struct, tag=True, frozen=True):
    """The Spark epoch ends when `sn` is stepped; later heads belong to the next epoch."""

    sn: int = 0


class HeadMoved(msgspec.Struct, tag=True, frozen=True):
    """There is work. The epoch that is planned now has so many seats."""

    head: int
    seats: int = 1


FromSeat = (
    Hello
    | Await
    | IsStepping
    | Rests
    | Ready
    | Parts
    | Done
    | Piece
    | Loads
    | Fault
    | Mended
    | BehindReport
    | Trouble
    | Bye
)
FromBell = Welcome | LeftOut | Subscribed | Head | CatchUp | End | HeadMoved
Message = FromSeat | FromBell

from_seat: msgspec.msgpack.Decoder[FromSeat] = msgspec.msgpack.Decoder(FromSeat)
from_bell: msgspec.msgpack.Decoder[FromBell] = msgspec.msgpack.Decoder(FromBell)
MessageT = TypeVar("MessageT")
_encoder = msgspec.msgpack.Encoder()


def frame(message: Message) -> bytes:
    return framed(_encoder.encode(message))


def receive_message(
    decoder: msgspec.msgpack.Decoder[MessageT], connection: socket.socket, size_max: int = FRAME_BYTES_MAX
) -> MessageT:
    """The next message; raises Garbled for bytes that are not a message."""
    body = receive(connection, size_max)
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:  # deep nesting, and texts that are no UTF-8
        raise Garbled(f"a frame of {len(body)} bytes is not a message: {error}") from error


def token_of(connection: socket.socket) -> bytes:
    """The first bytes of a connection; they may be anything."""
    return bytes(exactly(connection, TOKEN_BYTES))


def tune(connection: socket.socket) -> socket.socket:
    """Messages are short, and must not wait for further bytes. A machine that has vanished is noticed."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _VANISHED_S // 3)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _VANISHED_S * 1000)
    return connection


# ---- how a task finds the bell --------------------------------------------------------------------------------


class Address(msgspec.Struct, frozen=True):
    """The address of the bell, in a file that only this user can read: a command line or an option of Spark would show
    the token. With a `certificate` it speaks TLS, and has no other one."""

    host: str
    port: int
    token: str
    certificate: str = ""

    def write(self, path: Path) -> None:
        path.touch(mode=0o600)
        path.write_bytes(msgspec.json.encode(self))

    @classmethod
    def read(cls, path: Path) -> Address:
        return msgspec.json.decode(path.read_bytes(), type=cls)

    def connect(self) -> socket.socket:
        """A connection that has shown the token."""
        if self.certificate:
            connection = tls.connect(self.host, self.port, self.certificate)
        else:
            connection = socket.create_connection((self.host, self.port), timeout=None)
        try:
            tune(connection)
            connection.sendall(self.token.encode())
        except OSError:
            connection.close()
            raise
        return connection


# ---- parts and states -----------------------------------------------------------------------------------------


class OpenShard(Protocol):
    """Opens a shard of these queries `only`; None: of all queries that run on Spark."""

    def __call__(
        self, url: str, base: str, allowed_urls: AllowedUrls, budget: Budget, only: Collection[int] | None = None, /
    ) -> Shard: ...


class Codec:
    """Parts and states as bytes; their types are in the module of the shard's factory (`module:function`)."""

    def __init__(self, factory: str) -> None:
        module_name, _, function = factory.partition(":")
        module = importlib.import_module(module_name)
        self.open_shard: OpenShard = getattr(module, function)
        self._encoder = msgspec.msgpack.Encoder(enc_hook=_column_bytes)
        parts: Any = list[module.Part]  # type: ignore[name-defined]
        self._parts: msgspec.msgpack.Decoder[list[Any]] = msgspec.msgpack.Decoder(parts, dec_hook=_column)
        self._state: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(module.QueryState, dec_hook=_column)

    def parts(self, body: msgspec.Raw) -> list[Any]:
        return self._parts.decode(body)

    def encode_parts(self, parts: Sequence[Any]) -> msgspec.Raw:
        return msgspec.Raw(self._encoder.encode(parts))

    def parts_frames(self, sn: int, parts: Sequence[Any], end: Done | Piece | None = None) -> list[bytes]:
        """The frames that carry all parts of an SN, its Done (or another `end`) with the last of them."""
        frames: list[bytes] = []
        bundle: list[msgspec.Raw] = []
        size = 0
        for body in (msgspec.Raw(self._encoder.encode(part)) for part in parts):
            if bundle and size + len(memoryview(body)) > PARTS_BYTES:
                frames.append(frame(Parts(sn, _raw_array(bundle))))
                bundle, size = [], 0
            bundle.append(body)
            size += len(memoryview(body))
        if bundle:
            frames.append(frame(Parts(sn, _raw_array(bundle))))
        done = frame(end or Done(sn))
        if frames:
            frames[-1] += done
        return frames or [done]

    def encode_states(self, states: Mapping[int, Any]) -> dict[int, msgspec.Raw]:
        return {query: msgspec.Raw(self._encoder.encode(state)) for query, state in states.items()}

    def decode_states(self, states: Mapping[int, msgspec.Raw]) -> dict[int, Any]:
        return {query: self._state.decode(body) for query, body in states.items()}


def _raw_array(bodies: list[msgspec.Raw]) -> msgspec.Raw:
    return msgspec.Raw(_encoder.encode(bodies))


def _column_bytes(value: Any) -> memoryview:
    if not isinstance(value, np.ndarray):
        raise TypeError(f"a part contains a {type(value).__name__}, which cannot be encoded")
    return memoryview(cast(Any, np.ascontiguousarray(value, "<u8"))).cast("B")


def _column(kind: Any, body: Any) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.frombuffer(cast(bytes, body), "<u8")
