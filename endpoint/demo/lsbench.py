"""LSBench: posts, photos, likes and positions of a social network, beside its stored friendships and channels.

Le-Phuoc, Dao-Tran, Pham, Boncz, Eiter, Fink: Linked Stream Data Processing Engines: Facts and Figures. ISWC 2012.
The windows are those of Zhang, Chen, Chen: Sub-millisecond Stateful Stream Querying over Fast-evolving Linked Data,
SOSP 2017 (Wukong+S), which runs the same queries L1 to L6."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from endpoint.demo.benchmark import Benchmark, BenchmarkQuery, RecordedElement, Recording, StoredGraph, Window
from endpoint.demo.recorded import recording

_SIB = "http://www.ins.cwi.nl/sib/"
_PREFIXES = {
    "sib": _SIB + "vocabulary/",
    "sibu": _SIB + "user/",
    "sibp": _SIB + "person/",
    "sioc": "http://rdfs.org/sioc/ns#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "dbp": "http://dbpedia.org/property/",
}
_STREAMS = {
    "posts": "http://deri.org/poststream",
    "likedposts": "http://deri.org/likedpoststream",
    "photos": "http://deri.org/photostream",
    "likedphotos": "http://deri.org/likedphotostream",
    "gps": "http://deri.org/gpsstream",
}
_FILES = {
    "posts": "post_1k.tnt.gz",
    "likedposts": "postlike_1k.tnt.gz",
    "photos": "photo_1k.tnt.gz",
    "likedphotos": "photolike_1k.tnt.gz",
    "gps": "gps_1k_first60k.tnt.gz",
}
_GRAPH = _SIB + "graph"
#: In the published recording there are positions only before.
_READ_FROM_MS = 1_265_003_000_000
_SHORT = ("1s", "100ms")
_QUESTIONS = (
    BenchmarkQuery(
        "L1",
        "what a user does",
        "SELECT ?p ?o",
        (Window("posts", *_SHORT, "sibu:u984 ?p ?o"),),
    ),
    BenchmarkQuery(
        "L2",
        "the posts of a person",
        "SELECT ?post",
        (Window("posts", *_SHORT, "?user sioc:creator_of ?post"),),
        "?user sioc:account_of sibp:p984 .",
        graphs=(_GRAPH,),
    ),
    BenchmarkQuery(
        "L3",
        "the posts of a person's friends",
        "SELECT ?friend ?post",
        (Window("posts", *_SHORT, "?friend sioc:creator_of ?post"),),
        "?user sioc:account_of sibp:p984 ; foaf:knows ?friend .",
        graphs=(_GRAPH,),
    ),
    BenchmarkQuery(
        "L4",
        "two posts of one user with the same tag",
        "SELECT ?post1 ?post2 ?tag",
        (
            Window(
                "posts",
                "15s",
                "1s",
                "?user sioc:creator_of ?post1 , ?post2 . ?post1 sib:hashtag ?tag . ?post2 sib:hashtag ?tag",
            ),
        ),
        filter="?post1 != ?post2",
    ),
    BenchmarkQuery(
        "L5",
        "friends of those in a photo like it",
        "SELECT ?friend1 ?friend2 ?photo",
        (
            Window("likedphotos", *_SHORT, "?friend2 sib:like ?photo"),
            Window("photos", "1m", "100ms", "?photo sib:usertag ?friend1"),
        ),
        "?friend1 foaf:knows ?friend2 .",
        graphs=(_GRAPH,),
    ),
    BenchmarkQuery(
        "L6",
        "friends like posts of a channel that somebody follows",
        "SELECT ?user ?friend ?post ?channel",
        (
            Window("posts", "1m", "100ms", "?channel sioc:container_of ?post"),
            Window("likedposts", *_SHORT, "?friend sib:like ?post"),
        ),
        "?user foaf:knows ?friend ; sioc:subscriber_of ?channel .",
        graphs=(_GRAPH,),
    ),
    BenchmarkQuery(
        "Q10",
        "the number of posts of each tag",
        "SELECT ?tag (COUNT(?post) AS ?posts)",
        (Window("posts", "1m", "1s", "?post sib:hashtag ?tag"),),
        ends="GROUP BY ?tag ORDER BY DESC(?posts) LIMIT 10",
    ),
)

# ---- the generator

_USERS, _FRIENDS, _TAGS = 1_000, 10, 40
_BEGIN_MS = 1_264_982_400_000  # 2010-02-01, as the recorded one
_EVERY_MS = 20
_RECENT = 200
#: Of ten elements so many are of these streams.
_MIX = ("posts", "posts", "photos", "likedposts", "likedposts", "likedphotos", "likedphotos", "gps", "gps", "gps")
#: One in so many posts is by the person that the queries ask about, or by a friend.
_KNOWN, _ONE_IN = 984, 6
_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"


class _Network:
    """Who knows whom, and who follows which channel."""

    def __init__(self, chance: random.Random) -> None:
        users = range(_USERS)
        self.friends = [chance.sample([other for other in users if other != user], _FRIENDS) for user in users]

    def document(self) -> bytes:
        lines = []
        for user, friends in enumerate(self.friends):
            account, channel = _iri("user/u", user), _iri("forum/fo", user)
            lines.append(f"{account} <{_PREFIXES['sioc']}account_of> {_iri('person/p', user)} .")
            lines.append(f"{account} <{_PREFIXES['sioc']}moderator_of> {channel} .")
            for friend in friends:
                lines.append(f"{account} <{_PREFIXES['foaf']}knows> {_iri('user/u', friend)} .")
                lines.append(f"{account} <{_PREFIXES['sioc']}subscriber_of> {_iri('forum/fo', friend)} .")
        return "\n".join(lines).encode()


class _Actions:
    """What the users do, one action after the other."""

    def __init__(self, network: _Network, chance: random.Random) -> None:
        self._network, self._chance = network, chance
        self._count = 0
        self._posts: deque[tuple[int, int]] = deque(maxlen=_RECENT)  # post and channel
        self._photos: deque[tuple[int, int]] = deque(maxlen=_RECENT)  # photo and who is in it

    def __iter__(self) -> Iterator[RecordedElement]:
        act = {
            "posts": self._post,
            "likedposts": self._like_post,
            "photos": self._photo,
            "likedphotos": self._like_photo,
            "gps": self._position,
        }
        while True:
            stream = self._chance.choice(_MIX)
            triples = act[stream]()
            yield RecordedElement(_BEGIN_MS + self._count * _EVERY_MS, stream, "\n".join(triples))
            self._count += 1

    def _user(self) -> int:
        if self._chance.randrange(_ONE_IN):
            return self._chance.randrange(_USERS)
        return _KNOWN if self._chance.random() < 0.5 else self._chance.choice(self._network.friends[_KNOWN])

    def _post(self) -> list[str]:
        user, post = self._user(), _iri("post/po", self._count)
        self._posts.append((self._count, user))
        tags = self._chance.sample(range(_TAGS), self._chance.randrange(1, 4))
        return [
            f"{post} {_TYPE} <{_PREFIXES['sib']}Post> .",
            f'{post} <{_PREFIXES["sioc"]}content> "post {self._count}" .',
            f"{_iri('forum/fo', user)} <{_PREFIXES['sioc']}container_of> {post} .",
            f"{_iri('user/u', user)} <{_PREFIXES['sioc']}creator_of> {post} .",
            *(f'{post} <{_PREFIXES["sib"]}hashtag> "tag{tag}" .' for tag in tags),
        ]

    def _photo(self) -> list[str]:
        user, photo = self._user(), _iri("photoalbum/photo/pho", self._count)
        tagged = self._chance.sample(self._network.friends[user], 2)
        self._photos.append((self._count, tagged[0]))
        return [
            f"{photo} {_TYPE} <{_PREFIXES['sib']}Photo> .",
            f"{_iri('photoalbum/pa', user)} <{_PREFIXES['sioc']}container_of> {photo} .",
            *(f"{photo} <{_PREFIXES['sib']}usertag> {_iri('user/u', each)} ." for each in tagged),
        ]

    def _like_post(self) -> list[str]:
        if not self._posts:
            return self._position()
        post, author = self._chance.choice(self._posts)
        return self._like(_iri("post/po", post), author)

    def _like_photo(self) -> list[str]:
        if not self._photos:
            return self._position()
        photo, tagged = self._chance.choice(self._photos)
        return self._like(_iri("photoalbum/photo/pho", photo), tagged)

    def _like(self, what: str, somebody: int) -> list[str]:
        user = self._chance.choice(self._network.friends[somebody])
        return [f"{_iri('user/u', user)} <{_PREFIXES['sib']}like> {what} ."]

    def _position(self) -> list[str]:
        position = _iri("gps/gps", self._count)
        latitude, longitude = self._chance.uniform(-90, 90), self._chance.uniform(-180, 180)
        double = "^^<http://www.w3.org/2001/XMLSchema#double>"
        return [
            f"{_iri('user/u', self._user())} <{_PREFIXES['sib']}trackedAt> {position} .",
            f'{position} <{_PREFIXES["dbp"]}latd> "{latitude:.4f}"{double} .',
            f'{position} <{_PREFIXES["dbp"]}longd> "{longitude:.4f}"{double} .',
        ]


def _iri(kind: str, number: int) -> str:
    return f"<{_SIB}{kind}{number}>"


def _generate(seed: int) -> Recording:
    chance = random.Random(seed)
    network = _Network(chance)
    return Recording((StoredGraph(_GRAPH, network.document()),), iter(_Actions(network, chance)))


def _read(folder: Path) -> Recording:
    return recording(folder, _FILES, {_GRAPH: "static_1k.nt.gz"}, _READ_FROM_MS)


LSBENCH = Benchmark(
    "lsbench",
    "LSBench (Le-Phuoc et al., ISWC 2012), queries as in Wukong+S (SOSP 2017)",
    _PREFIXES,
    _STREAMS,
    _QUESTIONS,
    _generate,
    _read,
    speed=1,
    read_speed=300,
)
