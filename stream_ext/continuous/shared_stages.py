"""The shared stages of a timing class: who has an operator that others have, too, and when they become one.

A run that joins the class has operators of its own, as after a restart. Between two snapshots, when all runs of the
class are at the same evaluation, each operator that does the same as one of another run is given up for it, if both
have the same content. A window that is a set shows a triple that came several times with the validity of the copy that
it saw first; so of a run that was built later some rows may have others. Then it is tried again, later.

    q1 registered        it has scan :p
    q2 registered        its own scan :p, as long as its content differs; then both read one
    q1 dropped           q2 reads it alone
    q2 leaves the class  with the operator; with a copy, if others still read it"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from stream_ext.network.network import Network
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.shared_stage import SharedStage
from stream_ext.network.operators.scans.window_scan import WindowScan
from stream_ext.network.sharing import NetworkSharing, StageKey, are_same
from stream_ext.windows.arrivals import Arrival

if TYPE_CHECKING:
    from stream_ext.continuous.run import Run


class _Trial:
    """A run that has operators which others have, too: after how many snapshots it is compared with them again."""

    __slots__ = ("left", "pause")

    def __init__(self) -> None:
        self.pause, self.left = 1, 0

    def is_due(self) -> bool:
        self.left -= 1
        return self.left < 0

    def failed(self) -> None:
        self.left, self.pause = self.pause, self.pause * 2


class SharedStages:
    def __init__(self) -> None:
        self._stages: dict[StageKey, SharedStage] = {}
        self._single: dict[StageKey, tuple[NetworkSharing, int]] = {}  # operators that one network has, at this stage
        self._trials: dict[Run, _Trial] = {}

    def join(self, run: Run) -> None:
        """From the end of this snapshot on it may share."""
        self._trials[run] = _Trial()

    def leave(self, run: Run, is_over: bool = False) -> None:
        """`is_over`: its network is not evaluated any more."""
        self._trials.pop(run, None)
        sharing = _network_of(run).sharing
        if sharing is None or sharing.is_ahead:
            return
        stages = self._no_longer_of(sharing)
        if is_over or sharing.is_lost:
            sharing.release()
        else:
            sharing.part()
        self._forget_unread(stages)

    def read_ahead(self, run: Run, arrivals: Iterable[tuple[Arrival, Sequence[Moment]]]) -> None:
        """The run stays behind the others in the middle of a snapshot: it goes its own way at its end. `arrivals`:
        those of the snapshot, and the evaluations after each."""
        sharing = _network_of(run).sharing
        if sharing is not None and not sharing.is_ahead:
            stages = self._no_longer_of(sharing)
            sharing.read_ahead(arrivals)
            self._forget_unread(stages)

    def give_up_lost(self, run: Run, others: Callable[[], Iterable[Run]]) -> None:
        """A step of `run` was not completed: the networks of the others that read one of the stages that it was in are
        built anew before they are stepped."""
        sharing = _network_of(run).sharing
        if sharing is None or not any(stage.is_lost for stage in sharing.stages):
            return
        for each in (run, *others()):
            sharing = _network_of(each).sharing
            if sharing is not None and any(stage.is_lost for stage in sharing.stages):
                sharing.is_lost = True
        self._stages = {key: stage for key, stage in self._stages.items() if not stage.is_lost}

    # ---- between two snapshots

    def gather(self) -> None:
        """All runs of the class are at the same evaluation."""
        for run in [run for run, trial in self._trials.items() if trial.is_due()]:
            evaluated = run.cohorts[0].evaluated
            assert evaluated is not None, "it was evaluated before it joined"
            if self._share(run, evaluated.time):
                del self._trials[run]
            else:
                self._trials[run].failed()

    def _share(self, run: Run, time: int) -> bool:
        """Whether the network of the run shares all that it can share now."""
        network = _network_of(run)
        sharing, is_done = network.sharing, True
        if sharing is None:
            sharing = network.sharing = NetworkSharing(network, run.evaluator.vocabulary)
        if sharing.translates:
            return False
        for place, key in enumerate(sharing.keys):
            if key is None or sharing.stage_at(place) is not None:
                continue
            single = self._single.setdefault(key, (sharing, place)) if key not in self._stages else None
            if single is not None and single[0].translates:
                single = self._single[key] = sharing, place
            if single == (sharing, place):
                continue
            if single is not None:
                self._make_shared(key, *single)
            stage = self._stages.get(key)
            if stage is not None and self._has_same_content(sharing, place, stage, time):
                sharing.share(place, stage)
            else:
                is_done = False
        return is_done

    def _make_shared(self, key: StageKey, sharing: NetworkSharing, place: int) -> None:
        inputs = sharing.inputs_at(place)
        if inputs is not None:
            del self._single[key]
            operator = sharing.operator_at(place)
            if isinstance(operator, WindowScan):
                operator.is_shared = True
            self._stages[key] = stage = SharedStage(key, operator, inputs)
            sharing.share(place, stage)

    def _has_same_content(self, sharing: NetworkSharing, place: int, stage: SharedStage, time: int) -> bool:
        """A join has what its inputs have."""
        inputs = sharing.inputs_at(place)
        if inputs is None or inputs != stage.inputs:
            return False
        if not isinstance(stage.operator, WindowScan):
            return True
        mine, theirs = sharing.shown(place, time), stage.operator.shown(time)
        return mine is None or theirs is None or are_same(mine, theirs)

    def _no_longer_of(self, sharing: NetworkSharing) -> list[SharedStage]:
        """What it has alone is not for others any more; returns its shared stages."""
        for key in sharing.keys:
            if key is not None and (found := self._single.get(key)) is not None and found[0] is sharing:
                del self._single[key]
        return list(sharing.stages)

    def _forget_unread(self, stages: Iterable[SharedStage]) -> None:
        for stage in stages:
            if not stage.readers and self._stages.get(stage.key) is stage:
                del self._stages[stage.key]


def _network_of(run: Run) -> Network:
    return run.evaluator.triggered(False).network
