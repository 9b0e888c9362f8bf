"""The life of a social network, as streams: posts, what is liked, photos, and where people are; of our own making.

Written in LSBench's vocabulary, so that its questions can be asked of it on a machine that has none of its data: users
who know one another and read channels (stored), and five streams of what they do. A stream is lines of (milliseconds,
N-Triples without the dot), in the order of their times; lines of one time are one element."""

from __future__ import annotations

import random
from collections.abc import Iterator

SIB = "http://www.ins.cwi.nl/sib/"
_VOCABULARY = f"{SIB}vocabulary/"
_SIOC = "http://rdfs.org/sioc/ns#"
_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_BUSY = 984  # who is asked about
_START = 1_264_982_400_000
_TAGS = ["Hat", "Full", "Stars", "Album", "River", "North", "Song", "Night", "Road", "Snow", "Fire", "Glass"]
_BROWSERS = ["Firefox", "Chrome", "Safari", "Lynx"]

STREAMS = ("poststream", "likedpoststream", "photostream", "likedphotostream", "gpsstream")
Line = tuple[int, bytes]


class Life:
    def __init__(self, users: int = 1000, seed: int = 1) -> None:
        self._users, self._seed = users, seed
        chance = random.Random(seed)
        self._knows = [sorted(chance.sample(range(users), min(users - 1, 19))) for _ in range(users)]

    def stored(self) -> Iterator[bytes]:
        chance = random.Random(self._seed + 1)
        for u in range(self._users):
            user = f"{SIB}user/u{u}"
            yield _line(user, f"{_SIOC}account_of", f"{SIB}person/p{u}")
            yield _answered(user, f"{_VOCABULARY}browser", chance.choice(_BROWSERS))
            yield _line(user, f"{_SIOC}moderator_of", f"{SIB}forum/fo{u}")
            for friend in self._knows[u]:
                if friend != u:
                    yield _line(user, "http://xmlns.com/foaf/0.1/knows", f"{SIB}user/u{friend}")
            for forum in chance.sample(range(self._users), 2):
                yield _line(user, f"{_SIOC}subscriber_of", f"{SIB}forum/fo{forum}")

    def streams(self, elements: int) -> dict[str, list[Line]]:
        """So many posts; a photo for each, and about four likes of either; a place for each."""
        chance = random.Random(self._seed + 2)
        observed: dict[str, list[Line]] = {name: [] for name in STREAMS}
        for n in range(elements):
            time = _START + n * 1000
            self._post(observed, chance, n, time)
            self._photo(observed, chance, n, time)
            self._place(observed, chance, n, time)
        return {name: sorted(lines, key=lambda line: line[0]) for name, lines in observed.items()}

    def _post(self, observed: dict[str, list[Line]], chance: random.Random, n: int, time: int) -> None:
        post, user = f"{SIB}post/po{n}", _BUSY % self._users if n % 50 == 0 else chance.randrange(self._users)
        lines = [
            _line(post, _TYPE, f"{_VOCABULARY}Post"),
            _line(post, _TYPE, f"{_SIOC}Post"),
            _answered(post, "http://purl.org/dc/terms/title", "null"),
            _answered(post, f"{_VOCABULARY}browser", chance.choice(_BROWSERS)),
            _answered(post, f"{_SIOC}content", f"number {n} of {user}"),
            _line(f"{SIB}forum/fo{chance.randrange(self._users)}", f"{_SIOC}container_of", post),
            _line(f"{SIB}user/u{user}", f"{_SIOC}creator_of", post),
            *(_answered(post, f"{_VOCABULARY}hashtag", tag) for tag in chance.sample(_TAGS, 3)),
        ]
        observed["poststream"] += [(time, line) for line in lines]
        self._liked(observed["likedpoststream"], chance, post, time)

    def _photo(self, observed: dict[str, list[Line]], chance: random.Random, n: int, time: int) -> None:
        photo = f"{SIB}photoalbum/photo/pho{n}"
        lines = [
            _line(photo, _TYPE, f"{_VOCABULARY}Photo"),
            _answered(photo, f"{_VOCABULARY}browser", chance.choice(_BROWSERS)),
            _line(f"{SIB}photoalbum/pa{n // 20}", f"{_SIOC}container_of", photo),
            *(
                _line(photo, f"{_VOCABULARY}usertag", f"{SIB}user/u{u}")
                for u in chance.sample(range(self._users), min(4, self._users))
            ),
        ]
        observed["photostream"] += [(time, line) for line in lines]
        self._liked(observed["likedphotostream"], chance, photo, time)

    def _liked(self, lines: list[Line], chance: random.Random, what: str, time: int) -> None:
        for i, user in enumerate(chance.sample(range(self._users), min(4, self._users)), 1):
            lines.append((time + i * 1000, _line(f"{SIB}user/u{user}", f"{_VOCABULARY}like", what)))

    def _place(self, observed: dict[str, list[Line]], chance: random.Random, n: int, time: int) -> None:
        place = f"{SIB}gps/gps{n}"
        observed["gpsstream"] += [
            (time, _line(f"{SIB}user/u{chance.randrange(self._users)}", f"{_VOCABULARY}trackedAt", place)),
            (time, _answered(place, "http://dbpedia.org/property/latd", f"{chance.uniform(-90, 90):.6f}")),
            (time, _answered(place, "http://dbpedia.org/property/longd", f"{chance.uniform(-180, 180):.6f}")),
        ]


def _line(subject: str, predicate: str, target: str) -> bytes:
    return f"<{subject}> <{predicate}> <{target}>".encode()


def _answered(subject: str, predicate: str, text: str) -> bytes:
    return f'<{subject}> <{predicate}> "{text}"'.encode()
