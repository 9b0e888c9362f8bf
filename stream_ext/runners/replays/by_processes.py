"""The tasks of replays, run by processes beside the server at the lowest priority, while it has no Spark.

Each replay has processes of its own, which end with it, as their memory stays as large as its windows were."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import closing, contextmanager
from functools import partial

from stream_ext.errors import JobFailed, QueryCancelled
from stream_ext.evaluation_budget import Control
from stream_ext.runners.replays.task import AHEAD, EncodedTask, RunTasks, TaskDied
from stream_ext.task_processes import LOWEST_PRIORITY, PoolClosed, ProcessLost, ProcessNotStarted, TaskProcesses

#: So often a waiting replay looks whether it is to end.
_LOOK_S = 0.1


class ReplayProcesses:
    """`lanes`: so many processes for each replay."""

    name, limited_by, is_ready = "processes beside the server", "--push-readers", True

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes

    @contextmanager
    def opened(self) -> Iterator[RunTasks]:
        run = "stream_ext.runners.replays.task:run_encoded"
        with closing(TaskProcesses(run, self.lanes, LOWEST_PRIORITY)) as processes:
            yield partial(_results, processes)


def _results(processes: TaskProcesses, tasks: Sequence[EncodedTask], control: Control) -> Generator[bytes, None, None]:
    under_way, waiting = deque[Future[bytes]](), deque(tasks)
    while waiting or under_way:
        while waiting and len(under_way) < AHEAD * processes.most:
            under_way.append(processes.submit(waiting.popleft().encoded))
        yield _result(under_way.popleft(), control)


def _result(future: Future[bytes], control: Control) -> bytes:
    while not future.done():
        control.check()
        wait([future], _LOOK_S)
    try:
        return future.result()
    except ProcessNotStarted as error:
        raise JobFailed(f"a process could not be started: {error}") from error
    except ProcessLost as error:
        raise TaskDied(
            f"a process that replayed its past died again and again (status {error.status}); it may need more memory "
            "than there is"
        ) from error
    except PoolClosed as error:
        raise QueryCancelled("the replay was cancelled") from error
