"""Runners: who steps the registered queries, here or on Spark; and what is done about one that kills its worker.

Its verb is *step*. It imports continuous queries, emissions and windows; it knows neither the writer nor the
service."""
