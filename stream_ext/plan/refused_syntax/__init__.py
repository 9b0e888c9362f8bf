"""Refused syntax: what the parser reads and the engine does not run is rejected by name, with line and column.

Its verb is *refuse*. Syntax that is not in the grammar at all is rejected by `language/syntax`. It imports the
language, the names of functions, and what the passes know of streams and timestamps."""
