"""Concurrent clients of a real server, recording all that they do and are told.

One seed fixes what each client sends; in which order the server takes it is left to the threads, and to the checker."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

import httpx

from tests.end_to_end.process import PATIENCE_S, Listener
from tests.integrity.content import LATENESS, SEEN, Content, Times, asked_for_ever, retained_of
from tests.integrity.history import AskedAt, Bag, Emission, History, Listed, Pushed, Quad, Read, Registered, Updated
from tests.stream_ext.scene import EX, Change, Push

ALL = "SELECT ?s ?p ?o ?g { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }"
NQUADS = {"content-type": "application/n-quads"}
JSON = {"accept": "application/sparql-results+json"}


class Client:
    """One sequential client. What it has done it adds to the history once the answer is there."""

    def __init__(self, name: str, url: str, history: History, seed: int, times: Times) -> None:
        self.name, self.history = name, history
        self.chance = random.Random(f"{seed} {name}")
        self.content = Content(self.chance, times)
        self.http = httpx.Client(base_url=url, timeout=PATIENCE_S)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def observed(self, method: str, path: str, **request: Any) -> tuple[httpx.Response, dict[str, Any]]:
        while True:
            began = time.monotonic_ns()
            answer = self.http.request(method, path, **request)
            ended = time.monotonic_ns()
            if answer.status_code != 429:
                break
            time.sleep(float(answer.headers["retry-after"]))  # the queries are behind: nothing has been done
        answer.raise_for_status()
        sn = int(answer.headers["rillet-snapshot"])
        return answer, {"client": self.name, "began": began, "ended": ended, "sn": sn}

    # ---- writing

    def push(self, push: Push) -> None:
        evaluated = self.chance.random() < 0.3
        wait = "evaluated" if evaluated else "published"
        path = f"/streams/{quote(f'{EX}s{push.stream}', safe='')}"
        if push.heartbeat is not None:
            answer, done = self.observed("POST", f"{path}/heartbeat?timestamp={push.heartbeat}&wait={wait}")
        else:
            answer, done = self.observed("POST", f"{path}?wait={wait}", content=ndjson(push), headers=NDJSON)
        body = answer.json()
        done["sn"] = body["snapshot"]
        self.history.done.append(
            Pushed(
                **done,
                push=push,
                absorbed=retained_of(push),
                batch=body["batch"],
                late=body["late"],
                evaluated=evaluated,
            )
        )

    def update(self, change: Change) -> None:
        _, done = self.observed("POST", "/update", data={"update": operations(change)})
        self.history.done.append(Updated(**done, change=change))

    def register(self, name: str) -> None:
        text = self.history.queries[name].text.replace(" :q AS", f" {name} AS", 1)
        _, done = self.observed("POST", "/queries", content=text, headers={"content-type": "application/sparql-query"})
        # The answer names a snapshot that has the query; this is the first of them.
        done["sn"] = self.http.get(f"/queries/{name}").json()["registered"]
        self.history.done.append(Registered(**done, query=name))

    # ---- reading

    def read(self) -> None:
        form = {"query": ALL}
        answer, done = self.observed("POST", "/sparql", data=form, headers=JSON)
        self.history.done.append(Read(**done, quads=_quads(answer.json())))

    def list(self, name: str) -> tuple[Emission, ...]:
        answer, done = self.observed("GET", f"/queries/{name}/results?since=0")
        emissions = tuple(emission_of(line) for line in map(json.loads, answer.text.splitlines()))
        self.history.done.append(Listed(**done, query=name, emissions=emissions))
        return emissions

    def ask_again(self, name: str) -> None:
        """The text of the query itself, at the time and the snapshot of something that it said."""
        if emissions := self.list(name):
            emission = self.chance.choice(emissions)
            text = self.history.queries[name].text
            text = text[: text.index("REGISTER")] + text.partition(" AS ")[2]
            form = {"query": text, "at": str(emission.time), "snapshot": str(emission.sn)}
            answer, done = self.observed("POST", "/sparql", data=form, headers=JSON)
            self.history.done.append(AskedAt(**done, query=name, time=emission.time, rows=rows_of(answer.json())))


NDJSON = {"content-type": "application/x-ndjson"}


def ndjson(push: Push) -> bytes:
    emitted = [
        json.dumps({"timestamp": at, "data": " .\n".join(map(" ".join, triples)) + " ."})
        for at, triples in push.elements
    ]
    return "\n".join(emitted).encode()


def operations(change: Change) -> str:
    both = ("DELETE", change.delete), ("INSERT", change.insert)
    return " ; ".join(f"{verb} DATA {{ {_emitted(quads)} }}" for verb, quads in both if quads)


def _emitted(quads: Sequence[Quad]) -> str:
    shown = (" ".join(triple) + " ." if g is None else f"GRAPH {g} {{ {' '.join(triple)} }}" for triple, g in quads)
    return " ".join(shown)


# ---- what answers say, written as the oracle writes it -----------------------------------------------------


def term_of(term: dict[str, str]) -> str:
    if term["type"] == "uri":
        return f"<{term['value']}>"
    kind = f"^^<{term['datatype']}>" if "datatype" in term else ""
    return f'"{term["value"]}"{kind}'


def rows_of(answer: dict[str, Any]) -> Bag | bool:
    if "boolean" in answer:
        return bool(answer["boolean"])
    names = answer["head"]["vars"]
    rows = answer["results"]["bindings"]
    return Counter(tuple(term_of(row[name]) if name in row else "None" for name in names) for row in rows)


def _quads(answer: dict[str, Any]) -> frozenset[Quad]:
    rows = rows_of(answer)
    assert isinstance(rows, Counter) and all(count == 1 for count in rows.values()), "a store is a set"
    return frozenset(((s, p, o), None if g == "None" else g) for s, p, o, g in rows)


def emission_of(emitted: dict[str, Any]) -> Emission:
    assert "repeated" not in emitted and "gap" not in emitted, emitted
    bounds = tuple((window["from"], window["to"], window["bounds"]) for window in emitted["windows"])
    return Emission(emitted["emission"], emitted["snapshot"], emitted["time"], bounds, rows_of(emitted))


# ---- all of them -------------------------------------------------------------------------------------------


def recorded(url: str, seed: int, rounds: int) -> History:
    """A history of some clients at once, on a server that is empty."""
    chance = random.Random(seed)
    history = History({f"q{i}": asked_for_ever(chance) for i in range(5)})
    times = Times({1: chance.randrange(40), 2: chance.randrange(40)})

    def client(name: str) -> Client:
        return Client(name, url, history, seed, times)

    with client("first") as first:
        for stream, lateness in LATENESS.items():
            # What a stream brought before any query reads it, it keeps for as long as it says: a query that comes later
            # finds what the checker knows, however slow the server is.
            options = {"timeless": [SEEN[1:-1]], "lateness": f"{lateness}ms", "retention": "1d"}
            first.http.put(f"/streams/{quote(f'{EX}s{stream}', safe='')}", json=options).raise_for_status()
        names = sorted(history.queries)
        for name in names[:3]:
            first.register(name)
        listeners = {name: Listener(url, name) for name in names[:3]}
        _at_once(_tasks(client, names, rounds))
        # Time goes on, so that all that was pushed is closed; then nothing is under way any more.
        for stream in (1, 2):
            first.push(Push(stream, (), max(times.now.values()) + 60))
        first.http.post(f"/streams/{quote(f'{EX}s1', safe='')}/heartbeat?timestamp=0&wait=evaluated").raise_for_status()
        history.received = {name: list(first.list(name)) for name in names}
    for name, listener in listeners.items():
        listener.wait_for(len(history.received[name]))
        history.received[name] = [emission_of(emitted) for emitted in listener.emissions]
        listener.close()
    return history


def _tasks(client: Callable[[str], Client], names: list[str], rounds: int) -> list[Callable[[], None]]:
    """What each client does, from its first to its last request."""

    def pusher(one: Client, stream: int) -> None:
        for _ in range(rounds):
            one.push(one.content.push(stream))

    def updater(one: Client) -> None:
        for _ in range(rounds):
            one.update(one.content.change()) if one.chance.random() < 0.5 else one.read()

    def reader(one: Client) -> None:
        for _ in range(rounds):
            one.read()
            one.chance.choice([one.list, one.ask_again])(one.chance.choice(names[:3]))

    def registrar(one: Client) -> None:
        for name in names[3:]:
            for _ in range(rounds // 3):
                one.read()
            one.register(name)
            one.list(name)

    def task(does: Callable[..., None], name: str, *rest: int) -> Callable[[], None]:
        def run() -> None:
            with client(name) as one:
                does(one, *rest)

        return run

    pushers = [task(pusher, f"pusher {stream}{which}", stream) for stream in (1, 2) for which in "ab"]
    return [*pushers, *(task(updater, f"updater {w}") for w in "ab"), task(reader, "reader"), task(registrar, "third")]


def _at_once(tasks: list[Callable[[], None]]) -> None:
    faults: list[BaseException] = []

    def run(task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:  # noqa: BLE001 -- raised again below, in the thread of the test
            faults.append(error)

    threads = [threading.Thread(target=run, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
