"""rdflib-endpoint as it is, over rdflib's memory store: the peer that `rillet bench http` runs beside our server.

python -m tests.benchmarks.peer PORT FILE.nt"""

from __future__ import annotations

import sys
import warnings


def main() -> None:
    import uvicorn
    from rdflib import Dataset
    from rdflib_endpoint import SparqlEndpoint

    port, file = int(sys.argv[1]), sys.argv[2]
    graph = Dataset(default_union=True)
    graph.parse(file, format="nt")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        app = SparqlEndpoint(graph=graph, path="/sparql")
    uvicorn.run(app, host="127.0.0.1", port=port, loop="uvloop", http="httptools", log_level="error")


if __name__ == "__main__":
    main()
