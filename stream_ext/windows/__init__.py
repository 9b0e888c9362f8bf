"""Windows: when a query is evaluated, over what, and what comes too late. Pure functions of the pushes.

It imports the language's windows only: no clock, no process, no store but arrivals."""
