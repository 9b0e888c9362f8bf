"""The Spark runner: continuous queries as one Structured Streaming query of long epochs.

A task of Spark takes a seat and serves it for a whole Spark epoch: it is told of each new snapshot by the
*bell* (a socket to the endpoint's process), steps the network of all queries, and sends back the *parts*.
Only then does it give Spark its row of statistics, and Spark plans the next epoch. Spark starts, retries and
places the work; what is true stays in the store.

    settings.py       what may be chosen, and what is told to Spark
    java.py           where Java comes from
    driver.py         the child process that holds the Spark session
    source.py         the streaming source: an offset is an epoch number, a partition is a seat
    seat.py           what a task does in its seat
    wire.py           the messages between seat and bell
    door.py           who may come in: the token, few strangers, one time limit
    bell.py           the endpoint's half: who sits, what is the head, whose parts count
    worker_daemon.py, worker_module.py    how Spark's Python processes start, and start quickly
    child.py          starting, watching and ending the driver's process
    tasks.py          tasks of one-shot queries, given to the driver a few at a time
    driver_tasks.py   the driver's half: each is a job of Spark
    task_process.py   what a process of Spark does with one
    standalone_tasks.py    Spark for one query, without a server
    runner.py         SparkRunner, what the service holds
"""

from __future__ import annotations
