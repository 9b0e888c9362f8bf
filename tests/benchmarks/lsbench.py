"""LSBench's one-shot questions S1-S6 over its data, where a copy of that is at hand (`data/lsbench` of RILLET_SHARED).

The stored data and the streams are loaded into one graph, the streams without their times. S6 as it was published
finds nothing in this data; S6a asks the same of persons, who do have a place."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

_PREFIXES = """PREFIX sib: <http://www.ins.cwi.nl/sib/vocabulary/>
PREFIX sibu: <http://www.ins.cwi.nl/sib/user/>
PREFIX sibp: <http://www.ins.cwi.nl/sib/person/>
PREFIX sibg: <http://www.ins.cwi.nl/sib/group/>
PREFIX sioc: <http://rdfs.org/sioc/ns#>
PREFIX foaf: <http://xmlns.com/foaf/0.1/>
PREFIX dbp: <http://dbpedia.org/resource/>
"""
_TEXTS = {
    "S1": "SELECT ?p ?o { sibu:u984 ?p ?o }",
    "S2": "SELECT ?post { ?user sioc:account_of sibp:p781 ; sioc:creator_of ?post }",
    "S3": """SELECT ?friend ?post {
  ?user sioc:account_of sibp:p984 ; foaf:knows ?friend . ?friend sioc:creator_of ?post }""",
    "S4": """SELECT ?user1 ?photo ?album ?user2 {
  sibg:g1 sioc:has_member ?user1 . ?photo sib:usertag ?user1 .
  ?album sioc:container_of ?photo . ?user2 sioc:creator_of ?album }""",
    "S5": """SELECT ?user ?profile ?gender ?day ?email {
  sibu:u984 foaf:knows ?user . ?user sioc:account_of ?profile .
  ?profile foaf:gender ?gender ; foaf:birthday ?day ; sioc:email ?email }""",
    "S6": """SELECT ?user1 ?post ?user2 ?tag {
  ?user1 foaf:based_near dbp:Peoples_Republic_of_China ; sioc:creator_of ?post .
  ?user2 sib:like ?post ; foaf:based_near dbp:United_States . ?post sib:hashtag ?tag }""",
    "S6a": """SELECT ?user1 ?post ?user2 ?tag {
  ?user1 sioc:account_of ?person1 . ?person1 foaf:based_near dbp:Peoples_Republic_of_China .
  ?user1 sioc:creator_of ?post . ?user2 sib:like ?post ; sioc:account_of ?person2 .
  ?person2 foaf:based_near dbp:United_States . ?post sib:hashtag ?tag }""",
}
QUERIES = {name: _PREFIXES + text for name, text in _TEXTS.items()}


def folder() -> Path:
    return Path(os.environ.get("RILLET_SHARED", "../shared"), "data", "lsbench")


def write(path: Path) -> None:
    """All of it as N-Triples."""
    with path.open("wb") as out:
        for file in sorted(folder().glob("*_1k*nt.gz")):
            with gzip.open(file, "rb") as lines:
                out.writelines(line.rpartition(b"\t")[2] if b".tnt" in file.name.encode() else line for line in lines)
