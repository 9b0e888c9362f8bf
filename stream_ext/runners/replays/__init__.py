"""Replays: the past of a registered query, evaluated by several processes at the same time.

    stretches.py       which queries can be divided, and where their past is cut
    task.py            a stretch of a past as a value, and its evaluation in whatever process
    replay.py          the replay of one query: its tasks, and what they found, in order
    replays.py         which queries of a shard are replayed so, and by whom
    by_processes.py    tasks are run by processes beside the server; `stream_ext.runners.spark` has them run by Spark

Each task begins as the server would after a restart: it reads what the windows hold at the close where its stretch
begins, and evaluates that close once more without a result. So what it finds then is what one process would have found,
and only the numbers of the evaluations have to be put in order."""

from __future__ import annotations
