"""`python -m endpoint` is `rillet`."""

from endpoint.cli import main

raise SystemExit(main())
