"""Example texts for the editors: something to run at once, and a template for each kind of continuous question."""

FIRST = "SELECT * {\n  ?subject ?predicate ?object\n}\nLIMIT 50"

_ONCE = {
    "Anything": FIRST,
    "Predicates, and how often each is used": (
        "SELECT ?predicate (COUNT(*) AS ?triples) {\n  ?s ?predicate ?o\n}\nGROUP BY ?predicate ORDER BY DESC(?triples)"
    ),
    "Classes, and how many instances": (
        "SELECT ?class (COUNT(*) AS ?instances) {\n  ?s a ?class\n}\nGROUP BY ?class ORDER BY DESC(?instances)"
    ),
    "Named graphs": "SELECT DISTINCT ?graph {\n  GRAPH ?graph { ?s ?p ?o }\n}",
    "Is there any triple?": "ASK { ?s ?p ?o }",
    "Add two triples": (
        "PREFIX ex: <http://example.org/>\nINSERT DATA {\n  ex:z1 ex:partOf ex:city .\n  ex:z2 ex:partOf ex:city\n}"
    ),
    "Streams": "SHOW STREAMS",
}

REGISTRATION = """PREFIX ex: <http://example.org/>
REGISTER RSTREAM near AS
SELECT ?taxi ?zone
FROM NAMED WINDOW ex:last10 ON STREAM taxis [RANGE 10s STEP 1s]
WHERE {
  WINDOW ex:last10 { ?taxi ex:in ?zone }
}"""

_READINGS = "FROM NAMED WINDOW ex:recent ON STREAM readings [RANGE 10s STEP 5s]"
_READING = "WINDOW ex:recent { ?reading ex:by ?sensor ; ex:celsius ?celsius }"

_CONTINUOUS = {
    "Alert": f"""# Alert: the readings of the last ten seconds that are above 30, each once.
PREFIX ex: <http://example.org/>
REGISTER ISTREAM alert AS
SELECT ?sensor ?celsius
{_READINGS}
WHERE {{
  {_READING}
  FILTER (?celsius > 30)
}}""",
    "Join with facts": f"""# Join with facts: the readings above the limit of their room. Rooms and limits are stored.
PREFIX ex: <http://example.org/>
REGISTER RSTREAM over_limit AS
SELECT ?room ?celsius ?limit
{_READINGS}
WHERE {{
  {_READING}
  ?sensor ex:in ?room .
  ?room ex:limit ?limit
  FILTER (?celsius > ?limit)
}}""",
    "Mean of each group": f"""# Mean of each group: how warm is each room, on average of the last ten seconds?
PREFIX ex: <http://example.org/>
REGISTER RSTREAM mean AS
SELECT ?room (AVG(?celsius) AS ?average)
{_READINGS}
WHERE {{
  {_READING}
  ?sensor ex:in ?room
}}
GROUP BY ?room""",
    "Top n": f"""# Top n: the three warmest readings of the last ten seconds, the warmest first.
PREFIX ex: <http://example.org/>
REGISTER RSTREAM warmest AS
SELECT ?sensor ?celsius
{_READINGS}
WHERE {{
  {_READING}
}}
ORDER BY DESC(?celsius)
LIMIT 3""",
    "Absence": """# Absence: which sensors reported nothing during the last ten seconds?
PREFIX ex: <http://example.org/>
REGISTER RSTREAM silent AS
SELECT ?sensor ?room
FROM NAMED WINDOW ex:recent ON STREAM readings [RANGE 10s STEP 5s]
WHERE {
  ?sensor ex:in ?room
  FILTER NOT EXISTS { WINDOW ex:recent { ?reading ex:by ?sensor } }
}""",
    "Trend": """# Trend: in which rooms is the average of five seconds above that of fifteen? (two windows)
PREFIX ex: <http://example.org/>
REGISTER RSTREAM trend AS
SELECT ?room ?short ?long
FROM NAMED WINDOW ex:short ON STREAM readings [RANGE 5s STEP 5s]
FROM NAMED WINDOW ex:long ON STREAM readings [RANGE 15s STEP 5s]
WHERE {
  { SELECT ?room (AVG(?now) AS ?short) {
      WINDOW ex:short { ?a ex:by ?sensor ; ex:celsius ?now }
      ?sensor ex:in ?room
    } GROUP BY ?room }
  { SELECT ?room (AVG(?then) AS ?long) {
      WINDOW ex:long { ?b ex:by ?sensor ; ex:celsius ?then }
      ?sensor ex:in ?room
    } GROUP BY ?room }
  FILTER (?short > ?long)
}""",
    "Chain": f"""# Chain: a CONSTRUCT makes a stream of its own, warm_rooms, which other queries can read.
PREFIX ex: <http://example.org/>
REGISTER STREAM warm_rooms AS
CONSTRUCT {{ ?room ex:tooWarm ?celsius }}
{_READINGS}
WHERE {{
  {_READING}
  ?sensor ex:in ?room .
  ?room ex:limit ?limit
  FILTER (?celsius > ?limit)
}}""",
}

_CITY_BIKES = "FROM NAMED WINDOW <urn:w> ON STREAM city_bikes [RANGE 5m STEP 1m]"
_CITY_COUNT = "WINDOW <urn:w> { ?count city:station ?station ; city:free ?free }"
#: For the city that the console plays.
CITY = {
    "Bikes at each station": f"""# How many bikes are free at each station, on average of the last five minutes?
PREFIX city: <http://example.org/city/>
REGISTER RSTREAM my_bikes AS
SELECT ?station (AVG(?free) AS ?bikes)
{_CITY_BIKES}
WHERE {{
  {_CITY_COUNT}
}}
GROUP BY ?station""",
    "Stations with few bikes": f"""# At which stations were there at most two bikes during the last five minutes?
PREFIX city: <http://example.org/city/>
REGISTER RSTREAM few_bikes AS
SELECT ?name (MAX(?free) AS ?most)
FROM <http://example.org/city/facts>
{_CITY_BIKES}
WHERE {{
  {_CITY_COUNT}
  ?station city:name ?name
}}
GROUP BY ?name
HAVING (MAX(?free) <= 2)""",
    "Districts and their stations": """PREFIX city: <http://example.org/city/>
SELECT ?district ?station ?docks
FROM <http://example.org/city/facts> {
  ?at city:in ?area ; city:name ?station ; city:docks ?docks .
  ?area city:name ?district
}
ORDER BY ?district ?station""",
}

#: By kind; each with its name.
EXAMPLES = {"Asked once": _ONCE, "Asked continuously: templates to register": _CONTINUOUS}

EXPLAINED = REGISTRATION

PUSH = "<http://example.org/taxi7> <http://example.org/in> <http://example.org/z1> ."
