"""HTTP: TLS certificates, access, request bodies and their bounds, connections, thread pools, parameters, running
queries.

It knows no route. A route receives an `Exchange`, and by it the `AppState`. It imports query_workers, formats,
monitoring."""
