"""`python -m endpoint` is `rillet`."""

from endpoint.cli.command_line import main

raise SystemExit(main())
