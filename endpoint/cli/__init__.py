"""The command line: `rillet` and its commands, their output, and their exit codes.

Each command imports what it needs when it runs."""
