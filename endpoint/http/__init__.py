"""HTTP: who may come in, bodies and their bounds, connections, threads, parameters, questions under way.

It knows no route: `app_state` and `exchange` are what each of them is handed. It imports query_workers, formats,
monitoring."""
