"""LSBench's continuous questions Q1-Q6 and Q10, and L1-L6, in which Wukong+S asks five of them of narrower windows.

Each names the streams that it reads. The Q have the patterns that they have in CQELS-QL, asked in C-SPARQL of the
last minute, every second; the L of the last second, ten times a second."""

from __future__ import annotations

from dataclasses import dataclass, replace

PREFIXES = """PREFIX sib: <http://www.ins.cwi.nl/sib/vocabulary/>
PREFIX sibu: <http://www.ins.cwi.nl/sib/user/>
PREFIX sibp: <http://www.ins.cwi.nl/sib/person/>
PREFIX sioc: <http://rdfs.org/sioc/ns#>
PREFIX foaf: <http://xmlns.com/foaf/0.1/>
"""
MINUTE = "RANGE 1m STEP 1s"
SECOND = "RANGE 1s STEP 100ms"


@dataclass(frozen=True, slots=True)
class Asked:
    select: str
    pattern: str
    streams: tuple[str, ...]
    stored: bool = True  # whether it reads what is stored
    end: str = ""

    def text(self, name: str, window: str) -> str:
        froms = " ".join(f"FROM STREAM <http://deri.org/{stream}> [{window}]" for stream in self.streams)
        stored = "FROM DEFAULT " if self.stored else ""
        return f"{PREFIXES}REGISTER QUERY {name} AS {self.select} {stored}{froms} WHERE {{ {self.pattern} }} {self.end}"

    def about(self, user: str) -> Asked:
        """The same of somebody else."""
        return replace(self, pattern=self.pattern.replace("sibu:u984", user))

    @property
    def plain(self) -> str:
        return f"{PREFIXES}{self.select} WHERE {{ {self.pattern} }} {self.end}"


_POSTS_OF_ONE = "?user sioc:account_of sibp:p984 . ?user sioc:creator_of ?post"
_POSTS_OF_FRIENDS = "?user sioc:account_of sibp:p984 . ?user foaf:knows ?friend . ?friend sioc:creator_of ?post"
_SAME_TAG = """?post1 sib:hashtag ?tag . ?user sioc:creator_of ?post1 . ?post2 sib:hashtag ?tag .
  ?user sioc:creator_of ?post2 FILTER(?post1 != ?post2)"""
_FRIEND_LIKES = "?photo sib:usertag ?friend1 . ?friend1 foaf:knows ?friend2 . ?friend2 sib:like ?photo"
_CHANNEL = """?channel sioc:container_of ?post . ?user sioc:subscriber_of ?channel . ?user foaf:knows ?friend .
  ?friend sib:like ?post"""

QUESTIONS = {
    "Q1": Asked("SELECT ?p ?o", "sibu:u984 ?p ?o", ("poststream",), stored=False),
    "Q2": Asked("SELECT ?post", _POSTS_OF_ONE, ("poststream",)),
    "Q3": Asked("SELECT ?friend ?post", _POSTS_OF_FRIENDS, ("poststream",)),
    "Q4": Asked("SELECT ?post1 ?post2 ?tag", _SAME_TAG, ("poststream",), stored=False),
    "Q5": Asked("SELECT ?friend1 ?friend2 ?photo", _FRIEND_LIKES, ("photostream", "likedphotostream")),
    "Q6": Asked("SELECT ?user ?friend ?post ?channel", _CHANNEL, ("poststream", "likedpoststream")),
    "Q10": Asked(
        "SELECT ?tag (COUNT(?post) AS ?n)", "?post sib:hashtag ?tag", ("poststream",), stored=False, end="GROUP BY ?tag"
    ),
}
NARROW = {
    "L1": Asked("SELECT ?p ?o", "sibu:u984 ?p ?o", ("poststream", "gpsstream")),
    "L2": QUESTIONS["Q2"],
    "L3": QUESTIONS["Q3"],
    "L4": Asked("SELECT ?post1 ?post2 ?tag", _SAME_TAG, ("poststream",)),
    "L5": QUESTIONS["Q5"],
    "L6": QUESTIONS["Q6"],
}
