"""Runners: where shards are stepped, in this process or on Spark; and what is done about a query that kills its worker.

It imports continuous queries, emissions and windows; it knows neither the writer nor the service."""
