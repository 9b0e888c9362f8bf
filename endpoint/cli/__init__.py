"""The command line: `rillet` and its commands, what they print, and how they end.

It imports the rest of the endpoint, each command what it needs, when it runs."""
