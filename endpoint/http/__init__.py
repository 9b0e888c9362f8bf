"""HTTP: who may come in, bodies and their bounds, connections, threads, parameters, questions under way.

It knows no route. A route receives an `Exchange`, and by it the `AppState`. It imports query_workers, formats,
monitoring."""
