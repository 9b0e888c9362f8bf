"""The pages: a module for each entry of the menu, or each kind of thing that has a page. Verb: show.

A module has `page`, which takes the room and returns HTML; `endpoint.console.blueprint` has their paths. May import:
the editor, and the modules of the console that all pages share."""
