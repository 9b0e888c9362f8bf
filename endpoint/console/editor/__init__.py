"""What the server does for somebody who writes a query: errors and meaning while one types, the words that may come
next, names of the store, layout, examples. Verb: help to write.

May import: the modules of the console that all pages share, and no page."""
