"""Example texts for the editors."""

FIRST = "SELECT * {\n  ?subject ?predicate ?object\n}\nLIMIT 50"

QUERIES = {
    "Anything": FIRST,
    "Predicates, and how often each is used": (
        "SELECT ?predicate (COUNT(*) AS ?triples) {\n  ?s ?predicate ?o\n}\nGROUP BY ?predicate ORDER BY DESC(?triples)"
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

EXPLAINED = REGISTRATION

PUSH = "<http://example.org/taxi7> <http://example.org/in> <http://example.org/z1> ."
